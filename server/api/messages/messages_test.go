package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/sse"
)

const hi = `"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]`

// post sends a body and returns the reply.
func post(s http.Handler, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestTemplate: what the template reads of every kind of block.
func TestTemplate(t *testing.T) {
	const call = `{"type":"tool_use","id":"c1","name":"get_time","input":{"zone":"CET"}}`
	const asked = `{"role":"user","content":"Hi"}`
	for name, c := range map[string]struct{ body, want string }{
		"text":   {`"messages":[` + asked + `]`, asked},
		"system": {`"system":"Be brief","messages":[` + asked + `]`, `{"role":"system","content":"Be brief"},` + asked},
		"system blocks": {`"system":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}},` +
			`{"type":"text","text":"B"}],"messages":[` + asked + `]`, `{"role":"system","content":"A\n\nB"},` + asked},
		"blocks": {`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		"document": {`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text",` +
			`"media_type":"text/plain","data":"a page"}}]}]`, `{"role":"user","content":"a page"}`},
		"calls": {`"messages":[` + asked + `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm",` +
			`"signature":"s"},{"type":"redacted_thinking","data":"?"},{"type":"text","text":"So"},` + call + `]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"12"},` +
			`{"type":"text","text":"h"}]},{"type":"text","text":"And?"}]}]`,
			asked + `,{"role":"assistant","content":"So","reasoning_content":"hm","tool_calls":[{"id":"c1",` +
				`"type":"function","function":{"name":"get_time","arguments":{"zone":"CET"}}}]},` +
				`{"role":"tool","tool_call_id":"c1","name":"get_time","content":"12\nh"},` +
				`{"role":"user","content":"And?"}`},
		"calls alone": {`"messages":[` + asked + `,{"role":"assistant","content":[` + call + `]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"gone"}]}]`,
			asked + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":` +
				`{"name":"get_time","arguments":{"zone":"CET"}}}]},` +
				`{"role":"tool","tool_call_id":"c1","name":"get_time","content":"Error: gone"}`},
		"empty result": {`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c9"}]}]`,
			`{"role":"tool","tool_call_id":"c9","content":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			chat := &generatetest.Chat{}
			rec := post(newServer(&generatetest.Engine{}, chat), `{"model":"m","max_tokens":2,`+c.body+`}`)
			if rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if got := chat.Requests()[0]; !strings.HasPrefix(got, `{"messages":[`+c.want+`],`) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestImages: images of users and of what tools said stand as parts, with their places for errors.
func TestImages(t *testing.T) {
	c, err := decode([]byte(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":[
		{"type":"tool_result","tool_use_id":"c1","content":[{"type":"image","source":{"type":"url","url":"http://a/b"}}]},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"text","text":"?"}]}]}`),
		true)
	if err != nil {
		t.Fatal(err)
	}
	got := c.draft.Conversation.Messages
	want := []generate.Image{{URL: "http://a/b", Place: "messages[0].content[0].content[0]"},
		{URL: "data:image/png;base64,QUJD", Place: "messages[0].content[1]"}}
	if len(got) != 2 || got[0].Role != "tool" || !reflect.DeepEqual(got[1].Images, want) || string(got[1].JSON) !=
		`{"role":"user","content":[{"type":"image"},{"type":"image"},{"type":"text","text":"?"}]}` {
		t.Errorf("got %+v\n%s", got, got[len(got)-1].JSON)
	}
}

// TestSettings: what the members of a request become.
func TestSettings(t *testing.T) {
	installed := &dispatch.Model{Plugins: func() []server.Plugin { return []server.Plugin{{Name: budgetPlugin}} }}
	decoded := func(fields string) *call {
		c, err := decode([]byte(`{`+hi+fields+`}`), true)
		if err != nil {
			t.Fatal(err)
		}
		c.bind(installed)
		if err := c.equip(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := decoded(`,"temperature":0.5,"top_k":3,"top_p":0.9,"stop_sequences":["a","b"],"thinking":{"type":"enabled",` +
		`"budget_tokens":5},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"a":1}}}`)
	d := c.draft
	if *d.Temperature != 0.5 || *d.TopK != 3 || *d.TopP != 0.9 || !slices.Equal(d.Stop, []string{"a", "b"}) ||
		*d.MaxNewTokens != 9 || !d.Clip || d.Grammar.Language != generate.JSONSchema ||
		string(d.Grammar.Source) != `{"a":1}` {
		t.Errorf("got %+v", d)
	}
	if got := string(d.Conversation.Kwargs); got != `{"reasoning_effort":"low","enable_thinking":true}` {
		t.Errorf("variables are %s", got)
	}
	if len(d.Plugins) != 1 || string(d.Plugins[0].Params) != `{"budget":5}` {
		t.Errorf("plugins are %+v", d.Plugins)
	}
	tools := `,"tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{},"strict":true}],"tool_choice":`
	for choice, want := range map[string]generate.ToolChoice{
		`{"type":"auto"}`: {}, `{"type":"any"}`: {Mode: generate.ChooseRequired},
		`{"type":"none"}`: {Mode: generate.ChooseNone},
		`{"type":"tool","name":"b","disable_parallel_tool_use":true}`: {Mode: generate.ChooseNamed, Name: "b"},
	} {
		got := decoded(tools + choice).draft.Conversation
		if got.ToolChoice != want || !got.Strict || got.Parallel == strings.Contains(choice, "parallel") {
			t.Errorf("%s: got %+v", choice, got)
		}
	}
}

// TestRefused: what is not supported is refused by name, with Anthropic's statuses and types.
func TestRefused(t *testing.T) {
	s := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	for fields, want := range map[string]string{
		`,"mcp_servers":[{}]`: "`mcp_servers` must be empty",
		`,"container":"c"`:    "`container` is not supported",
		`,"tools":[{"type":"bash_20250124","name":"bash"}]`:                      "`tools[0]`: tools of type `bash_20250124`",
		`,"tools":[{"name":"a b","input_schema":{}}]`:                            "`tools[0].name` must be 1 to 128 letters",
		`,"tool_choice":{"type":"tool"}`:                                         "`tool_choice.name` is missing",
		`,"tool_choice":{"type":"tool","name":"x"}`:                              "Tool with name x not found",
		`,"tool_choice":{"type":null}`:                                           "`tool_choice.type` must be a string",
		`,"tool_choice":{"type":"some"}`:                                         "unknown variant `some`",
		`,"thinking":{"type":"enabled"}`:                                         "`thinking.budget_tokens` is missing",
		`,"thinking":{"type":"enabled","budget_tokens":9}`:                       "less than `max_tokens` (9). Given: 9",
		`,"stop_sequences":["a","b","c","d","e"]`:                                "`stop_sequences` supports up to 4",
		`,"temperature":-1`:                                                      "`temperature` must be >= 0.0. Given: -1",
		`,"output_config":{"format":{"type":"text"}}`:                            "unknown variant `text`",
		`,"cache_control":{"type":"ephemeral","ttl":"2h"}`:                       "unknown variant `2h`",
		`,"guided_regex":"a","output_format":{"type":"json_schema","schema":{}}`: "are both given",
	} {
		rec := post(s, `{`+hi+fields+`}`)
		var got struct {
			Type  string
			Error struct{ Type, Message string }
			ID    string `json:"request_id"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusBadRequest ||
			got.Type != "error" || got.Error.Type != "invalid_request_error" ||
			got.ID != rec.Header().Get("Request-Id") ||
			!strings.Contains(got.Error.Message, want) {
			t.Errorf("%s: %d %s, want %s", fields, rec.Code, rec.Body, want)
		}
	}
	for blocks, want := range map[string]string{
		`{"type":"video"}`: "blocks of type `video` are not supported here",
		`{"type":"image","source":{"type":"file","file_id":"f"}}`: "sources of type `file` are not supported",
		`{"type":"tool_use","id":"a","name":"b","input":{}}`:      "blocks of type `tool_use`",
		`{"type":"tool_result"}`:                                  "tool_use_id` is missing",
	} {
		rec := post(s, `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":[`+blocks+`]}]}`)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) ||
			!strings.Contains(rec.Body.String(), "messages[0].content[0]") {
			t.Errorf("%s: %d %s, want %s", blocks, rec.Code, rec.Body, want)
		}
	}
}

// gather puts the events of a stream together as Anthropic's clients do.
func gather(t *testing.T, stream []byte) map[string]any {
	t.Helper()
	var message map[string]any
	var partial []string
	for events := sse.New(bytes.NewReader(stream)); ; {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return message
		}
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(e, &v); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
		i := 0
		if f, ok := v["index"].(float64); ok {
			i = int(f)
		}
		switch v["type"] {
		case "message_start":
			message = v["message"].(map[string]any)
		case "content_block_start":
			if i != len(partial) {
				t.Fatalf("block %d begins behind %d", i, len(partial))
			}
			message["content"] = append(message["content"].([]any), v["content_block"])
			partial = append(partial, "")
		case "content_block_delta":
			d := v["delta"].(map[string]any)
			block := message["content"].([]any)[i].(map[string]any)
			for _, member := range []string{"text", "thinking", "signature"} {
				if s, ok := d[member].(string); ok {
					block[member] = block[member].(string) + s
				}
			}
			if s, ok := d["partial_json"].(string); ok {
				partial[i] += s
			}
		case "content_block_stop":
			block := message["content"].([]any)[i].(map[string]any)
			if block["type"] == "tool_use" {
				var input any
				if err := json.Unmarshal([]byte(partial[i]), &input); err != nil {
					t.Fatalf("%q: %v", partial[i], err)
				}
				block["input"] = input
			}
		case "message_delta":
			for k, v := range v["delta"].(map[string]any) {
				message[k] = v
			}
			usage := v["usage"].(map[string]any)
			usage["service_tier"] = "standard"
			message["usage"] = usage
		}
	}
}

// TestSplits: however the text is cut into tokens, the blocks are the same, streamed or whole.
func TestSplits(t *testing.T) {
	const text = "<think>Hm, so.</think>\n\nLet me see.<call>get_time c1 {\"zone\": \"CET\"}</call>\n<call>add - {}</call>"
	special := []string{"<think>", "</think>", "<call>", "</call>"}
	rng := rand.New(rand.NewPCG(1, 2))
	var first string
	for n := range 200 {
		var tokens []generate.Token
		for rest := text; rest != ""; {
			at := strings.IndexByte(rest[1:], '<') + 1
			if i := slices.IndexFunc(special, func(s string) bool { return strings.HasPrefix(rest, s) }); i >= 0 {
				tokens = append(tokens, generate.Token{Token: llm.Token(i), Text: special[i], Special: true})
				rest = rest[len(special[i]):]
				continue
			}
			if at <= 0 {
				at = len(rest)
			}
			k := 1 + rng.IntN(at)
			tokens, rest = append(tokens, generate.Token{Token: 9, Text: rest[:k]}), rest[k:]
		}
		e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			return generatetest.Sequence(r, 0, llm.FinishEOS, tokens...)
		}}
		s := newServer(e, &generatetest.Chat{Parse: true})
		body := `{` + hi + `,"tools":[{"name":"get_time","input_schema":{}},{"name":"add","input_schema":{}}]`
		var whole map[string]any
		if err := json.Unmarshal(post(s, body+`}`).Body.Bytes(), &whole); err != nil {
			t.Fatal(err)
		}
		streamed := gather(t, post(s, body+`,"stream":true}`).Body.Bytes())
		if !reflect.DeepEqual(whole, streamed) {
			t.Fatalf("%d: whole %v\nstreamed %v", n, whole, streamed)
		}
		got := fmt.Sprint(whole["content"], whole["stop_reason"])
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, "Let me see.") || !strings.Contains(got, "tool_use") {
			t.Fatalf("%d: got %s\nwant %s", n, got, first)
		}
	}
}

// TestLeave: a client that leaves ends the generation.
func TestLeave(t *testing.T) {
	e := &generatetest.Engine{Pause: 5 * time.Millisecond}
	s := newServer(e, &generatetest.Chat{})
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages",
		strings.NewReader(`{"model":"m","max_tokens":190,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`))
	r.Header.Set("Content-Type", "application/json")
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

// TestExplain: what the engine tells of tokens is in the reply, and once in a stream.
func TestExplain(t *testing.T) {
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		events := generatetest.Echo(r)
		for i := range events {
			if r.Params.Explain == (llm.Explain{Top: 1, Tokens: 2}) && i < 2 {
				events[i].Explained = &llm.Explanation{Token: events[i].Token, Rank: 40 + i}
			}
		}
		return events
	}}
	s := newServer(e, &generatetest.Chat{})
	body := `{` + hi + `,"explain":{"top":1,"tokens":2}}`
	stream := body[:len(body)-1] + `,"stream":true}`
	for _, reply := range []string{post(s, body).Body.String(), post(s, stream).Body.String()} {
		if strings.Count(reply, `"explain":[{`) != 1 || strings.Count(reply, `"rank":40`) != 1 ||
			strings.Count(reply, `"rank":41`) != 1 {
			t.Errorf("got %s", reply)
		}
	}
	if reply := post(s, `{`+hi+`}`).Body.String(); strings.Contains(reply, "explain") {
		t.Errorf("nobody asked: %s", reply)
	}
}

// FuzzDecode: a body is a call, or is refused.
func FuzzDecode(f *testing.F) {
	f.Add(`{` + hi + `,"tools":[{"name":"a","input_schema":{}}],"tool_choice":{"type":"any"}}`)
	f.Add(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",` +
		`"content":[{"type":"image","source":{"type":"base64","media_type":"a","data":"b"}}]}]}]}`)
	f.Add(`{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n",` +
		`"input":{}},{"type":"thinking","thinking":"x"}]}],"system":[{"type":"text","text":"a"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := decode([]byte(body), true)
		if err != nil {
			return
		}
		if request := c.draft.Conversation.TemplateRequest(time.Unix(0, 0)); !json.Valid(request) {
			t.Errorf("the template reads %s", request)
		}
	})
}
