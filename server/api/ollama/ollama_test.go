package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/api/modelsapi"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

const hi = `"model":"demo","messages":[{"role":"user","content":"Hi"}]`

// TestTemplate: what the template reads of every kind of message.
func TestTemplate(t *testing.T) {
	const asked = `{"role":"user","content":"Hi"}`
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"get_time","arguments":{"zone":"CET"}}}`
	}
	for name, c := range map[string]struct{ path, body, want string }{
		"text":     {"chat", `"messages":[{"role":"USER","content":"Hi"}]`, asked},
		"generate": {"generate", `"prompt":"Hi"`, asked},
		"system":   {"generate", `"system":"Be brief","prompt":"Hi"`, `{"role":"system","content":"Be brief"},` + asked},
		"calls without ids": {"chat", `"messages":[` + asked + `,{"role":"assistant","content":"","thinking":"hm",` +
			`"tool_calls":[{"function":{"name":"get_time","arguments":{"zone":"CET"}}}]},` +
			`{"role":"tool","tool_name":"get_time","content":"12h"}]`, asked +
			`,{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[` + call("call00001") + `]},` +
			`{"role":"tool","tool_call_id":"call00001","name":"get_time","content":"12h"}`},
		"calls with ids": {"chat", `"messages":[` + asked + `,{"role":"assistant","content":"So","tool_calls":[` +
			`{"id":"a","function":{"index":0,"name":"x","arguments":null}},` + call("b") + `]},` +
			`{"role":"tool","tool_call_id":"b","content":"12h"},{"role":"tool","content":"?"}]`, asked +
			`,{"role":"assistant","content":"So","tool_calls":[{"id":"a","type":"function","function":` +
			`{"name":"x","arguments":{}}},` + call("b") + `]},` +
			`{"role":"tool","tool_call_id":"b","name":"get_time","content":"12h"},` +
			`{"role":"tool","tool_call_id":"a","name":"x","content":"?"}`},
		"an answer to nothing": {"chat", `"messages":[{"role":"tool","content":"?"}]`, `{"role":"tool","content":"?"}`},
	} {
		t.Run(name, func(t *testing.T) {
			chat := &generatetest.Chat{}
			rec := post(newServer(&generatetest.Engine{}, chat, newShelf()), "/api/"+c.path, `{"model":"demo",`+c.body+
				`,"options":{"num_predict":2}}`)
			if rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if got := chat.Requests()[0]; !strings.HasPrefix(got, `{"messages":[`+c.want+`],`) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestImages: pictures come before the text, with their places for errors.
func TestImages(t *testing.T) {
	c, err := decodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"?","images":["QUJD",` +
		`"data:image/png;base64,QQ"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := c.draft.Conversation.Messages[0]
	want := []generate.Image{{URL: "data:;base64,QUJD", Place: "messages[0].images[0]"},
		{URL: "data:image/png;base64,QQ", Place: "messages[0].images[1]"}}
	if !reflect.DeepEqual(m.Images, want) || string(m.JSON) !=
		`{"role":"user","content":[{"type":"image"},{"type":"image"},{"type":"text","text":"?"}]}` {
		t.Errorf("got %+v\n%s", m, m.JSON)
	}
	c, err = decodeGenerate([]byte(`{"model":"m","prompt":"?","images":["QUJD"]}`))
	if err != nil || c.draft.Conversation.Messages[0].Images[0].Place != "images[0]" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestSettings: what the members of a request become, and which have no effect.
func TestSettings(t *testing.T) {
	decoded := func(fields string) *call {
		t.Helper()
		c, err := decodeChat([]byte(`{` + hi + fields + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d := decoded(``).draft
	if *d.Temperature != 0.8 || *d.TopK != 40 || *d.TopP != 0.9 || d.MaxNewTokens != nil || d.Seed != nil ||
		!d.Stream || !d.Clip || d.Rules != generate.OpenAI {
		t.Errorf("Ollama's defaults are %+v", d)
	}
	c := decoded(`,"stream":false,"keep_alive":"5m","format":{"a":1},"think":"low","logprobs":true,"top_logprobs":3,` +
		`"options":{"num_predict":7.0,"temperature":0,"top_k":-1,"top_p":0.5,"min_p":0.1,"typical_p":0.7,"seed":3,` +
		`"stop":"a","repeat_penalty":1.5,"presence_penalty":0.5,"frequency_penalty":0.25,"repeat_last_n":64,` +
		`"num_ctx":4096,"mirostat":1,"num_gpu":null}`)
	d = c.draft
	if *d.MaxNewTokens != 7 || *d.Temperature != 0 || *d.TopK != 0 || *d.TopP != 0.5 || *d.MinP != 0.1 ||
		*d.TypicalP != 0.7 || *d.Seed != 3 || !slices.Equal(d.Stop, []string{"a"}) || *d.RepetitionPenalty != 1.5 ||
		*d.PresencePenalty != 0.5 || *d.FrequencyPenalty != 0.25 || d.Stream || *d.TopNTokens != 3 ||
		d.Grammar.Language != generate.JSONSchema || string(d.Grammar.Source) != `{"a":1}` || c.top != 3 ||
		*c.keep != 5*time.Minute || !c.thinks {
		t.Errorf("got %+v\n%+v", c, d)
	}
	want := []string{"options.num_ctx", "options.mirostat", "options.num_gpu", "options.repeat_last_n"}
	if !slices.Equal(c.ignored, want) {
		t.Errorf("no effect have %q, want %q", c.ignored, want)
	}
	if got := string(d.Conversation.Kwargs); got != `{"enable_thinking":true,"reasoning_effort":"low"}` {
		t.Errorf("variables are %s", got)
	}
	for text, want := range map[string]time.Duration{`0`: 0, `"0"`: 0, `-1`: forEver, `"-1m"`: forEver, `1.5`: 1500 *
		time.Millisecond, `1e30`: forEver, `"2h"`: 2 * time.Hour} {
		if got := decoded(`,"keep_alive":` + text).keep; *got != want {
			t.Errorf("keep_alive %s is %v, want %v", text, *got, want)
		}
	}
	c = decoded(`,"keep_alive":null,"think":null,"format":"","options":null,"tools":null,"stream":null`)
	if c.keep != nil || c.thinks || c.draft.Grammar != nil || !c.stream || c.draft.Conversation.Kwargs != nil {
		t.Errorf("null is something: %+v", c)
	}
	d = decoded(`,"options":{"repeat_last_n":0,"repeat_penalty":2,"seed":-1,"num_predict":-2}`).draft
	if d.Seed != nil || d.RepetitionPenalty != nil || d.MaxNewTokens != nil {
		t.Errorf("got %+v", d)
	}
	if got := decoded(`,"format":"json","think":false`).draft; got.Grammar.Language != generate.JSONObject ||
		string(got.Conversation.Kwargs) != `{"enable_thinking":false}` {
		t.Errorf("got %+v", got)
	}
}

// TestStrict: tools may be strict, as in chat completions.
func TestStrict(t *testing.T) {
	for strict, want := range map[string]bool{"true": true, "false": false, "null": false} {
		c, err := decodeChat([]byte(`{` + hi + `,"tools":[{"function":{"name":"f","parameters":{"type":"object"},` +
			`"strict":` + strict + `}},{"function":{"name":"g"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		got := c.draft.Conversation
		if got.Strict != want || strings.Contains(string(got.Tools), `,"strict":true}},{`) != want {
			t.Errorf("strict %s: %v, %s", strict, got.Strict, got.Tools)
		}
	}
}

// TestRefused: what is not supported is refused by name, under the names that the request has.
func TestRefused(t *testing.T) {
	s := newServer(&generatetest.Engine{}, &generatetest.Chat{}, newShelf())
	for _, c := range []struct {
		path, fields, want string
		status             int
	}{
		{"chat", `"messages":[]`, "model is required", 400},
		{"chat", hi + `,"options":{"num_predict":"x"}`, "`options.num_predict` must be an integer from", 400},
		{"chat", hi + `,"options":{"temperature":-1}`, "`options.temperature` must be >= 0.0. Given: -1", 400},
		{"chat", hi + `,"options":{"stop":["a","b","c","d","e"]}`, "`options.stop` supports up to 4", 400},
		{"chat", hi + `,"options":{"repeat_penalty":0}`, "`options.repeat_penalty` must be strictly positive", 400},
		{"chat", hi + `,"options":[]`, "`options` must be an object, given an array", 400},
		{"chat", hi + `,"top_logprobs":21,"logprobs":true`, "`top_logprobs` must be >= 0 and <= 20. Given: 21", 400},
		{"chat", hi + `,"format":"yaml"`, "`format` must be \"json\" or a JSON Schema. Given: \"yaml\"", 400},
		{"chat", hi + `,"think":"much"`, "`think`: unknown variant `much`", 400},
		{"chat", hi + `,"think":true`, `"demo" does not support thinking`, 400},
		{"chat", hi + `,"keep_alive":"soon"`, "`keep_alive` must be a number of seconds, or a duration such as", 400},
		{"chat", hi + `,"tools":[{"function":{"name":"a b"}}]`, "`tools[0].function.name`", 400},
		{"chat", hi + `,"tools":[{"function":{"name":"a","strict":"yes"}}]`, "`tools[0].function.strict`", 400},
		{"chat", hi + `,"tools":[{"type":"web"}]`, "`tools[0].type`: unknown variant `web`", 400},
		{"chat", `"model":"demo","messages":[{"role":"user","tool_calls":[{}]}]`,
			"`messages[0].tool_calls[0].function` is missing", 400},
		{"chat", `"model":"demo","messages":[{"role":"boss"}]`, "`messages[0].role`: unknown variant `boss`", 400},
		{"generate", `"model":"demo","prompt":"a","suffix":"b"`, `"demo" does not support insert`, 400},
		{"generate", `"model":"demo","prompt":"a","template":"b"`, "`template` is not supported", 400},
		{"generate", `"model":"demo","prompt":"a","raw":true,"system":"b"`,
			"raw mode does not support template, system, or context", 400},
		{"generate", `"model":"demo","prompt":"a","raw":true,"images":["QQ"]`, "`images` and `raw` exclude", 400},
		{"generate", `"model":"demo","prompt":"a","context":[5,4294967295]`, "`context` must hold token ids <", 400},
		{"generate", `"model":"demo","prompt":"a b","raw":true,"options":{"num_predict":5},"context":[1]`,
			"raw mode does not", 400},
		{"generate", `"model":"demo","prompt":"` + strings.Repeat("a ", 300) + `"`,
			"`prompt` tokens + `options.num_predict` must be <= 200", 400},
		{"copy", ``, "`/api/copy` is not supported", 400}, {"create", ``, "`/api/create` is not supported", 400},
		{"push", ``, "`/api/push` is not supported", 400}, {"show", ``, "model is required", 400},
		{"show", `"name":"none"`, "model 'none' not found", 404},
		{"chat", hi + `,`, "the body is not JSON: trailing comma at line 1", 400},
	} {
		rec := post(s, "/api/"+c.path, `{`+c.fields+`}`)
		var got struct{ Error string }
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != c.status ||
			!strings.Contains(got.Error, c.want) {
			t.Errorf("%s {%.200s}: %d %s, want %s", c.path, c.fields, rec.Code, rec.Body, c.want)
		}
	}
}

// gather puts the lines of a stream together as Ollama's server does for whole replies.
func gather(t *testing.T, stream []byte) map[string]any {
	t.Helper()
	var all map[string]any
	text, thoughts := "", ""
	var calls []any
	for line := range bytes.Lines(stream) {
		all = nil
		if err := json.Unmarshal(line, &all); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		m, ok := all["message"].(map[string]any)
		if !ok {
			t.Fatalf("no message: %s", line)
		}
		text += m["content"].(string)
		if s, ok := m["thinking"].(string); ok {
			thoughts += s
		}
		if more, ok := m["tool_calls"].([]any); ok {
			calls = append(calls, more...)
		}
	}
	message := map[string]any{"role": "assistant", "content": text}
	if thoughts != "" {
		message["thinking"] = thoughts
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	all["message"] = message
	return all
}

// TestSplits: however the text is cut into tokens, the reply is the same, streamed or whole.
func TestSplits(t *testing.T) {
	const text = "<think>Hm, so.</think>Let me see.<call>get_time c1 {\"zone\":\n\t\"CET\"}</call><call>add - {}</call>"
	special := []string{"<think>", "</think>", "<call>", "</call>"}
	rng := rand.New(rand.NewPCG(1, 2))
	var first string
	for n := range 200 {
		var tokens []generate.Token
		for rest := text; rest != ""; {
			if i := slices.IndexFunc(special, func(s string) bool { return strings.HasPrefix(rest, s) }); i >= 0 {
				tokens = append(tokens, generate.Token{Token: llm.Token(i), Text: special[i], Special: true})
				rest = rest[len(special[i]):]
				continue
			}
			at := strings.IndexByte(rest[1:], '<') + 1
			if at <= 0 {
				at = len(rest)
			}
			k := 1 + rng.IntN(at)
			tokens, rest = append(tokens, generate.Token{Token: 9, Text: rest[:k]}), rest[k:]
		}
		e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			return generatetest.Sequence(r, 0, llm.FinishEOS, tokens...)
		}}
		s := newServer(e, &generatetest.Chat{Parse: true}, newShelf())
		body := `{` + hi + `,"tools":[{"type":"function","function":{"name":"get_time"}},{"function":{"name":"add"}}]`
		var whole map[string]any
		if err := json.Unmarshal(post(s, "/api/chat", body+`,"stream":false}`).Body.Bytes(), &whole); err != nil {
			t.Fatal(err)
		}
		streamed := gather(t, post(s, "/api/chat", body+`}`).Body.Bytes())
		if !reflect.DeepEqual(whole, streamed) {
			t.Fatalf("%d: whole %v\nstreamed %v", n, whole, streamed)
		}
		got := fmt.Sprint(whole["message"], whole["done_reason"])
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, "Let me see.") || !strings.Contains(got, "call_a1") {
			t.Fatalf("%d: got %s\nwant %s", n, got, first)
		}
	}
}

// TestContext: the tokens of a reply come before the next prompt.
func TestContext(t *testing.T) {
	e := &generatetest.Engine{}
	s := newServer(e, &generatetest.Chat{}, newShelf())
	rec := post(s, "/api/generate", `{"model":"demo","prompt":"a b","stream":false,"options":{"num_predict":2}}`)
	var first struct{ Context []llm.Token }
	if err := json.Unmarshal(rec.Body.Bytes(), &first); err != nil {
		t.Fatal(err)
	}
	prompt := e.Requests()[0].Prompt
	if len(first.Context) != len(prompt)+2 || !slices.Equal(first.Context[:len(prompt)], prompt) {
		t.Errorf("context is %v, the prompt was %v", first.Context, prompt)
	}
	before, err := json.Marshal(first.Context)
	if err != nil {
		t.Fatal(err)
	}
	post(s, "/api/generate", `{"model":"demo","prompt":"a b","options":{"num_predict":2},"context":`+string(before)+`}`)
	if got := e.Requests()[1].Prompt; !slices.Equal(got, append(first.Context, prompt...)) {
		t.Errorf("the next prompt is %v", got)
	}
}

// TestContextOfReplaced: where a guard gives other words, the context has the tokens of what the client reads, and none
// of the model's.
func TestContextOfReplaced(t *testing.T) {
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		all := generatetest.Sequence(r, 0, llm.FinishLength, generate.Token{Token: 1, Text: "a"},
			generate.Token{Token: 2, Text: " [redacted,"}, generate.Token{Token: 2, Text: " twice]"},
			generate.Token{Token: 3, Text: " end"})
		all[1].Replaced, all[2].Replaced = true, true
		return all
	}}
	s := newServer(e, &generatetest.Chat{}, newShelf())
	rec := post(s, "/api/generate", `{"model":"demo","prompt":"a b","stream":false}`)
	var got struct{ Context []llm.Token }
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	const said = " [redacted, twice]"
	want := slices.Concat(e.Requests()[0].Prompt, []llm.Token{1}, generatetest.Words{}.EncodeSpans(said, nil),
		[]llm.Token{3})
	if !slices.Equal(got.Context, want) {
		t.Errorf("context is %v, want %v", got.Context, want)
	}
}

// TestTruncate: the oldest messages that do not fit are left out, those of the system are not.
func TestTruncate(t *testing.T) {
	messages := `{"role":"system","content":"sys"}`
	for i := range 40 {
		messages += fmt.Sprintf(`,{"role":"user","content":"old%d a b c d e"},{"role":"assistant","content":"ok"}`, i)
	}
	messages += `,{"role":"user","content":"last"}`
	chat := &generatetest.Chat{}
	s := newServer(&generatetest.Engine{}, chat, newShelf())
	body := `{"model":"demo","options":{"num_predict":2},"messages":[` + messages + `]`
	if rec := post(s, "/api/chat", body+`}`); rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	all := chat.Requests()
	last := all[len(all)-1]
	if !strings.Contains(last, `"sys"`) || !strings.Contains(last, `"last"`) || strings.Contains(last, "old0 ") ||
		!strings.Contains(last, "old39 ") {
		t.Errorf("the template read %s", last)
	}
	if rec := post(s, "/api/chat", body+`,"truncate":false}`); rec.Code != http.StatusBadRequest {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestKeep: how long the model stays is told to its owner, where the client may say so.
func TestKeep(t *testing.T) {
	own := newShelf()
	s := newServer(&generatetest.Engine{}, &generatetest.Chat{}, own)
	rec := post(s, "/api/chat", `{`+hi+`,"keep_alive":60,"options":{"num_predict":1}}`)
	if rec.Code != http.StatusOK || !slices.Equal(own.kept, []time.Duration{time.Minute}) {
		t.Errorf("%d, kept for %v", rec.Code, own.kept)
	}
	for body, reason := range map[string]string{`{"model":"demo"}`: "load",
		`{"model":"demo","keep_alive":0}`: "unload"} {
		for _, path := range []string{"/api/chat", "/api/generate"} {
			rec := post(s, path, body)
			if !strings.HasSuffix(rec.Body.String(), `"done":true,"done_reason":"`+reason+`"}`) {
				t.Errorf("%s %s: %s", path, body, rec.Body)
			}
		}
	}
}

// TestPull: a download is told about as Ollama does.
func TestPull(t *testing.T) {
	going := func(done, total int64) modelsapi.Model {
		return modelsapi.Model{ID: "org/name", State: modelsapi.Downloading, Progress: &modelsapi.Progress{Done: done,
			Total: total}}
	}
	own := newShelf()
	own.looks = []modelsapi.Model{going(0, 0), going(3, 9), going(3, 9), going(9, 9),
		{ID: "org/name", State: modelsapi.Downloaded}}
	s := newServer(&generatetest.Engine{}, &generatetest.Chat{}, own)
	rec := post(s, "/api/pull", `{"model":"hf.co/org/name:latest"}`)
	lines := strings.Split(strings.TrimSpace(rec.Body.String()), "\n")
	if len(lines) != 4 || lines[0] != `{"status":"pulling manifest"}` || lines[3] != `{"status":"success"}` ||
		!strings.HasPrefix(lines[1], `{"status":"pulling org/name","digest":"sha256:`) ||
		!strings.HasSuffix(lines[1], `"total":9,"completed":3}`) || own.pulls[0].Source != "org/name" {
		t.Errorf("%v\n%s", own.pulls, rec.Body)
	}
	own.looks = []modelsapi.Model{going(0, 0), {ID: "org/name", State: modelsapi.Failed, Failure: "no space"}}
	if rec := post(s, "/api/pull", `{"model":"org/name"}`); !strings.HasSuffix(rec.Body.String(),
		"{\"error\":\"pull model: no space\"}\n") {
		t.Errorf("a failed one: %s", rec.Body)
	}
	own.looks = []modelsapi.Model{going(0, 0), {ID: "org/name", State: modelsapi.Failed, Failure: "no space"}}
	if rec := post(s, "/api/pull", `{"model":"org/name","stream":false}`); rec.Code != 500 {
		t.Errorf("a failed one, whole: %d %s", rec.Code, rec.Body)
	}
	own.looks = []modelsapi.Model{{ID: "org/name", State: modelsapi.Downloaded}}
	if rec := post(s, "/api/pull", `{"name":"org/name","stream":false}`); rec.Body.String() != `{"status":"success"}` {
		t.Errorf("one that is there: %d %s", rec.Code, rec.Body)
	}
	if rec := post(s, "/api/pull", `{"model":"../a"}`); rec.Code != http.StatusBadRequest {
		t.Errorf("a path: %d %s", rec.Code, rec.Body)
	}
	own.looks = []modelsapi.Model{going(0, 0)}
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/pull", strings.NewReader(`{"model":"org/name"}`))
	r.Header.Set("Authorization", "Bearer admin")
	time.AfterFunc(5*time.Millisecond, cancel)
	s.ServeHTTP(httptest.NewRecorder(), r) // a client that leaves: the handler ends
}

// TestModels: lists, descriptions and deletions.
func TestModels(t *testing.T) {
	own := newShelf()
	s := newServer(&generatetest.Engine{}, &generatetest.Chat{}, own)
	var tags struct{ Models []map[string]any }
	if err := json.Unmarshal(ask(s, "GET", "/api/tags", "").Body.Bytes(), &tags); err != nil {
		t.Fatal(err)
	}
	m := tags.Models[0]
	want := map[string]any{"parent_model": "", "format": "gguf", "family": "qwen2", "families": []any{"qwen2"},
		"parameter_size": "494.03M", "quantization_level": "int4", "context_length": 200.0, "embedding_length": 64.0}
	if m["name"] != "demo:latest" || len(m["digest"].(string)) != 64 || !reflect.DeepEqual(m["details"], want) {
		t.Errorf("got %v", m)
	}
	if rec := ask(s, "GET", "/api/ps", ""); !strings.Contains(rec.Body.String(), `"expires_at":"2319-`) ||
		!strings.Contains(rec.Body.String(), `"size":7`) {
		t.Errorf("ps: %s", rec.Body)
	}
	rec := post(s, "/api/show", `{"model":"demo:latest"}`)
	var shown struct {
		Info map[string]any `json:"model_info"`
		Caps []string       `json:"capabilities"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &shown); err != nil || shown.Info["qwen2.context_length"] != 200.0 ||
		!slices.Equal(shown.Caps, []string{"completion", "tools"}) {
		t.Errorf("show: %v %s", err, rec.Body)
	}
	if rec := ask(s, "DELETE", "/api/delete", `{"model":"demo:latest"}`); rec.Code != 200 || own.deleted[0] != "demo" {
		t.Errorf("delete: %d %s", rec.Code, rec.Body)
	}
	own.err = modelsapi.ErrConflict
	if rec := ask(s, "DELETE", "/api/delete", `{"model":"demo"}`); rec.Code != http.StatusConflict {
		t.Errorf("delete: %d %s", rec.Code, rec.Body)
	}
	if rec := ask(s, "HEAD", "/api/blobs/sha256:00", ""); rec.Code != http.StatusBadRequest {
		t.Errorf("blobs: %d", rec.Code)
	}
	r := httptest.NewRequest("DELETE", "/api/delete", strings.NewReader(`{"model":"demo"}`))
	got := httptest.NewRecorder()
	s.ServeHTTP(got, r)
	if got.Code != http.StatusUnauthorized || !strings.HasPrefix(got.Body.String(), `{"error":`) {
		t.Errorf("without a key: %d %s", got.Code, got.Body)
	}
}

// TestNames: what names of Ollama mean.
func TestNames(t *testing.T) {
	has := func(ids ...string) func(string) bool {
		return func(id string) bool { return slices.Contains(ids, id) }
	}
	for _, c := range []struct {
		name, want string
		ids        []string
	}{
		{"demo", "demo", []string{"demo"}}, {"demo:latest", "demo", []string{"demo"}},
		{"qwen2.5:0.5b", "qwen2.5-0.5b", []string{"qwen2.5-0.5b"}},
		{"qwen2.5:0.5b", "qwen2.5:0.5b", []string{"qwen2.5"}},
		{"hf.co/org/name:Q4_K_M", "org/name", []string{"org/name"}},
		{"hf.co/org/name:Q4_K_M", "org/name-Q4_K_M", []string{"org/name", "org/name-Q4_K_M"}},
		{"huggingface.co/org/name", "org/name", []string{"org/name"}}, {"none:latest", "none", nil},
		{":latest", "", nil},
	} {
		if got := means(c.name, has(c.ids...)); got != c.want {
			t.Errorf("%q with %q means %q, want %q", c.name, c.ids, got, c.want)
		}
	}
}

// TestLeave: a client that leaves ends the generation.
func TestLeave(t *testing.T) {
	e := &generatetest.Engine{Pause: 5 * time.Millisecond}
	s := newServer(e, &generatetest.Chat{}, newShelf())
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/chat", strings.NewReader(`{`+hi+`}`))
	time.AfterFunc(30*time.Millisecond, cancel)
	s.ServeHTTP(httptest.NewRecorder(), r)
	for range 100 {
		if e.Running() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d requests run on", e.Running())
}

// FuzzDecode: a body is a call, or is refused.
func FuzzDecode(f *testing.F) {
	f.Add(true, `{`+hi+`,"tools":[{"type":"function","function":{"name":"a","parameters":{}}}],"think":"high",`+
		`"options":{"stop":["a"],"num_predict":1.0,"seed":-1},"keep_alive":"1s","format":{"type":"object"}}`)
	f.Add(true, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"n","arguments":{}}}]},`+
		`{"role":"tool","tool_name":"n","content":"c"},{"role":"user","images":["QQ"]}]}`)
	f.Add(false, `{"model":"m","prompt":"p","system":"s","context":[1,2],"images":["QQ"],"raw":false,"keep_alive":-1}`)
	f.Fuzz(func(t *testing.T, chat bool, body string) {
		decode := decodeGenerate
		if chat {
			decode = decodeChat
		}
		c, err := decode([]byte(body))
		if err != nil {
			if f := explain(err); f.Status < 400 || f.Status >= 500 || f.Text == "" {
				t.Errorf("%v is %+v", err, f)
			}
			return
		}
		if c.draft.Conversation == nil {
			return
		}
		if request := c.draft.Conversation.TemplateRequest(time.Unix(0, 0)); !json.Valid(request) {
			t.Errorf("the template reads %s", request)
		}
	})
}
