package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
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
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/sse"
)

// ask sends a request with a body, "" for none.
func ask(s http.Handler, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// object reads a reply.
func object(t *testing.T, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	return v
}

// TestTemplate: what the template reads of every kind of item.
func TestTemplate(t *testing.T) {
	const asked = `{"role":"user","content":"Hi"}`
	const called = `{"id":"c1","type":"function","function":{"name":"get_time","arguments":{"zone":"CET"},` +
		`"arguments_text":"{\"zone\":\"CET\"}"}}`
	for name, c := range map[string]struct{ body, want string }{
		"text":         {`"input":"Hi"`, asked},
		"instructions": {`"input":"Hi","instructions":"Be brief"`, `{"role":"system","content":"Be brief"},` + asked},
		"parts": {
			`"input":[{"role":"developer","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]`,
			`{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		"a turn": {`"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],"content":[{"type":` +
			`"reasoning_text","text":"hm"}]},{"role":"assistant","content":[{"type":"output_text","text":"So"}]},` +
			`{"type":"function_call","call_id":"c1","name":"get_time","arguments":"{\"zone\":\"CET\"}"},` +
			`{"type":"custom_tool_call","call_id":"c2","name":"run","input":"ls"},` +
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"12"}]},` +
			`{"type":"custom_tool_call_output","call_id":"c2","output":"a.txt"}]`,
			asked + `,{"role":"assistant","content":"So","reasoning_content":"hm","tool_calls":[` + called +
				`,{"id":"c2","type":"function","function":{"name":"run","arguments":{"input":"ls"}}}]},` +
				`{"role":"tool","tool_call_id":"c1","name":"get_time","content":"12"},` +
				`{"role":"tool","tool_call_id":"c2","name":"run","content":"a.txt"}`},
		"sealed": {`"input":[{"type":"reasoning","summary":[],"encrypted_content":"` + seal("hm") + `"},` +
			`{"type":"function_call","call_id":"c1","name":"get_time","arguments":"{\"zone\":\"CET\"}"}]`,
			`{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[` + called + `]}`},
		"another's": {
			`"input":[{"type":"reasoning","summary":[],"encrypted_content":"gAAA"},{"role":"user","content":"Hi"}]`,
			asked},
		"two turns": {
			`"input":[{"type":"function_call","call_id":"c1","name":"get_time","arguments":"{\"zone\":\"CET\"}"},` +
				`{"role":"assistant","content":"So"},{"role":"user","content":"Hi"}]`,
			`{"role":"assistant","content":null,"tool_calls":[` + called + `]},{"role":"assistant","content":"So"},` +
				asked},
	} {
		t.Run(name, func(t *testing.T) {
			chat := &generatetest.Chat{}
			s, _ := newServer(&generatetest.Engine{}, chat)
			object(t, ask(s, http.MethodPost, path, `{"max_output_tokens":2,`+c.body+`}`))
			if got := chat.Requests()[0]; !strings.HasPrefix(got, `{"messages":[`+c.want+`],`) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestSettings: what the members of a request become.
func TestSettings(t *testing.T) {
	c, err := decode([]byte(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"http://a/b"}]}],
		"text":{"format":{"type":"json_schema","name":"n","schema":{"a":1},"strict":true},"verbosity":"low"},
		"reasoning":{"effort":"none"},"max_output_tokens":7,"seed":3,"top_k":2,"plugins":[{"name":"p"}],
		"tools":[{"type":"function","name":"a","strict":true},{"type":"function","name":"b"}],
		"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"b"}]}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	d := c.draft
	if *d.MaxNewTokens != 7 || *d.Seed != 3 || *d.TopK != 2 || d.Plugins[0].Name != "p" || !d.Clip ||
		d.Grammar.Language != generate.JSONSchema || string(d.Grammar.Params) != `{"lenient":false}` {
		t.Errorf("got %+v", d)
	}
	v := d.Conversation
	if string(v.Kwargs) != `{"verbosity":"low","reasoning_effort":"none","enable_thinking":false}` || v.Strict ||
		!slices.Equal(v.ToolNames, []string{"b"}) || v.ToolChoice.Mode != generate.ChooseRequired || v.Answer == nil {
		t.Errorf("got %+v %s", v, v.Kwargs)
	}
	if got := c.input[0].parts[0].Image; got == nil || *got != (generate.Image{URL: "http://a/b",
		Place: "input[0].content[0]"}) {
		t.Errorf("got %+v", got)
	}
}

// TestRefused: what is not supported is refused by name.
func TestRefused(t *testing.T) {
	s, _ := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	for fields, want := range map[string]string{
		`,"prompt":{"id":"p"}`:                         "`prompt` is not supported",
		`,"tools":[{"type":"mcp","server_label":"x"}]`: "`tools[0].require_approval`: must be",
		`,"tools":[{"type":"mcp","server_label":"x","server_url":"http://a","require_approval":"never"}]`: "`tools[0].server_url`: MCP servers are those that the operator configures",
		`,"tools":[{"type":"mcp","server_label":"x","require_approval":{"never":{"tool_names":[]}}}]`:     "`tools[0].require_approval`: must be",
		`,"tools":[{"type":"mcp","server_label":"x","require_approval":"never"}]`:                         "there is no MCP server `x`",
		`,"tools":[{"type":"local_shell"}]`:                                                               "tools of type `local_shell` are not supported",
		`,"tool_choice":{"type":"file_search"}`:                                                           "`tool_choice` of type `file_search` is not supported",
		`,"tool_choice":"any"`:                                                                            "unknown variant `any`",
		`,"tool_choice":"required"`:                                                                       "`tool_choice` asks for a call of a tool, which needs `tools`",
		`,"include":["all"]`:                                                                              "unknown variant `all`",
		`,"background":true,"store":false`:                                                                "`background` needs `store`",
		`,"text":{"format":{"type":"json_schema","name":"x"}}`:                                            "`text.format.schema` is missing",
		`,"guided_regex":"a","tools":[{"type":"function","name":"b"}]`:                                    "\"message\":\"`guided_regex` and `tools` exclude each other\",\"type\":\"invalid_request_error\",\"param\":\"guided_regex\"",
		`,"text":{"verbosity":"loud"}`:                                                                    "unknown variant `loud`",
		`,"max_output_tokens":0`:                                                                          "`max_output_tokens` must be an integer from 1 to 4294967295, given 0",
		`,"include":[null]`:                                                                               "`include[0]` must be a string",
		`,"top_logprobs":21`:                                                                              "`top_logprobs` must be >= 0 and <= 20. Given: 21",
		`,"metadata":{"a":1}`:                                                                             "`metadata.a` must be a string, given 1",
		`,"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`:                                            "expected at most 512 characters",
		`,"truncation":"some"`:                                                                            "unknown variant `some`",
		`,"service_tier":"gold"`:                                                                          "unknown variant `gold`",
		`,"previous_response_id":"resp_Z"`:                                                                "Previous response with id 'resp_Z' not found.",
		`,"tools":[{"type":"custom","name":"a","format":{"type":"grammar"}}]`:                             "lacks `syntax` or `definition`",
	} {
		rec := ask(s, http.MethodPost, path, `{"input":"Hi"`+fields+`}`)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) ||
			!strings.Contains(rec.Body.String(), `"type":"invalid_request_error"`) {
			t.Errorf("%s: %d %s, want %s", fields, rec.Code, rec.Body, want)
		}
	}
	for item, want := range map[string]string{
		`{"type":"web_search_call","id":"w"}`:                               "items of type `web_search_call` are not supported",
		`{"role":"user","content":[{"type":"input_file","file_id":"f"}]}`:   "parts of type `input_file` are not supported",
		`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`:  "images need an `image_url`",
		`{"type":"function_call","call_id":"c","name":"n","arguments":"{"}`: "`arguments` must be a JSON object",
		`{"role":"tool","content":"x"}`:                                     "unknown variant `tool`",
	} {
		rec := ask(s, http.MethodPost, path, `{"input":[`+item+`]}`)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) ||
			!strings.Contains(rec.Body.String(), "input[0]") {
			t.Errorf("%s: %d %s, want %s", item, rec.Code, rec.Body, want)
		}
	}
}

// TestTruncation: the oldest items that do not fit are dropped where that is allowed, calls with what tools said to
// them.
func TestTruncation(t *testing.T) {
	long := strings.Repeat("word ", 60)
	body := `{"max_output_tokens":2,"input":[{"role":"developer","content":"Be kind"},{"role":"user","content":"` +
		long +
		`"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output",` +
		`"call_id":"c1","output":"` + long + `"},{"role":"user","content":"` + long + `"}],"truncation":`
	chat := &generatetest.Chat{}
	s, _ := newServer(&generatetest.Engine{}, chat)
	rec := ask(s, http.MethodPost, path, body+`"disabled"}`)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "context_length_exceeded") {
		t.Errorf("without truncation: %d %s", rec.Code, rec.Body)
	}
	v := object(t, ask(s, http.MethodPost, path, body+`"auto"}`))
	all := chat.Requests()
	last := all[len(all)-1]
	if !strings.Contains(last, "Be kind") || strings.Count(last, long) != 1 || strings.Contains(last, "tool_calls") ||
		strings.Contains(last, `"role":"tool"`) || v["truncation"] != "auto" {
		t.Errorf("the template read %s", last)
	}
}

// gather puts the events of a stream together, as clients do, and checks their numbers and their places.
func gather(t *testing.T, stream []byte) (response map[string]any, texts []string) {
	t.Helper()
	n := 0
	for events := sse.New(bytes.NewReader(stream)); ; n++ {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return response, texts
		}
		var v map[string]any
		if err != nil || json.Unmarshal(e, &v) != nil || v["sequence_number"] != float64(n) {
			t.Fatalf("event %d: %s: %v", n, e, err)
		}
		at := -1
		if f, ok := v["output_index"].(float64); ok {
			at = int(f)
		}
		switch kind := v["type"].(string); {
		case kind == "response.output_item.added":
			if at != len(texts) {
				t.Fatalf("item %d begins behind %d", at, len(texts))
			}
			texts = append(texts, "")
		case strings.HasSuffix(kind, ".delta"):
			texts[at] += v["delta"].(string)
		case strings.HasSuffix(kind, ".done") && kind != "response.content_part.done" &&
			kind != "response.output_item.done":
			for _, member := range []string{"text", "arguments", "input"} {
				if s, ok := v[member].(string); ok && s != texts[at] {
					t.Fatalf("%s has %q, its deltas %q", kind, s, texts[at])
				}
			}
		case v["response"] != nil:
			response = v["response"].(map[string]any)
		}
	}
}

// TestSplits: however the text is cut into tokens, the items are the same, and those of events and of whole replies.
func TestSplits(t *testing.T) {
	const text = "<think>Hm, so.</think>\n\nLet me see.<call>get_time c1 {\"zone\": \"CET\"}</call>\n" +
		"<call>run c2 {\"input\": \"ls\"}</call>"
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
		play := func(body string) []byte {
			e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
				return generatetest.Sequence(r, 0, llm.FinishEOS, tokens...)
			}}
			s, _ := newServer(e, &generatetest.Chat{Parse: true})
			return ask(s, http.MethodPost, path, `{"input":"Hi","tools":[{"type":"function","name":"get_time"},`+
				`{"type":"custom","name":"run"}]`+body+`}`).Body.Bytes()
		}
		var whole map[string]any
		if err := json.Unmarshal(play(""), &whole); err != nil {
			t.Fatal(err)
		}
		streamed, texts := gather(t, play(`,"stream":true`))
		if !reflect.DeepEqual(whole, streamed) {
			t.Fatalf("%d: whole %v\nstreamed %v", n, whole, streamed)
		}
		got := fmt.Sprint(whole["output"], texts)
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, "custom_tool_call") || !strings.Contains(got, "Let me see.") {
			t.Fatalf("%d: got %s\nwant %s", n, got, first)
		}
	}
}

// slow is an engine whose texts take about a second.
func slow() *generatetest.Engine { return &generatetest.Engine{Pause: 10 * time.Millisecond} }

const long = `{"input":"Hi","max_output_tokens":100`

// gone waits until nothing runs.
func gone(t *testing.T, e *generatetest.Engine) {
	t.Helper()
	for range 300 {
		if e.Running() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d requests run on", e.Running())
}

// TestLeave: a client that leaves ends its response, and nothing is kept of it; one behind it goes on.
func TestLeave(t *testing.T) {
	e := slow()
	s, api := newServer(e, &generatetest.Chat{})
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(long+`}`))
	r.Header.Set("Content-Type", "application/json")
	time.AfterFunc(50*time.Millisecond, cancel)
	s.ServeHTTP(httptest.NewRecorder(), r)
	gone(t, e)
	if rec := ask(s, http.MethodGet, path+"/resp_A1", ""); rec.Code != http.StatusNotFound {
		t.Errorf("of one that was left there is %d %s", rec.Code, rec.Body)
	}
	ctx, cancel = context.WithCancel(context.Background())
	r = httptest.NewRequestWithContext(ctx, http.MethodPost, path,
		strings.NewReader(long+`,"background":true,"stream":true}`))
	r.Header.Set("Content-Type", "application/json")
	time.AfterFunc(50*time.Millisecond, cancel)
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if strings.Contains(rec.Body.String(), "response.completed") {
		t.Fatal("it was over before the client left")
	}
	id := "resp_A2"
	if v := object(t, ask(s, http.MethodGet, path+"/"+id, "")); v["status"] != inProgress || v["background"] != true {
		t.Errorf("it runs as %v", v["status"])
	}
	seen := strings.Count(rec.Body.String(), "event: ")
	rest := ask(s, http.MethodGet, fmt.Sprintf("%s/%s?stream=true&starting_after=%d", path, id, seen-1), "")
	v, _ := gather(t, append(rec.Body.Bytes(), rest.Body.Bytes()...))
	if v["status"] != statusIncomplete {
		t.Errorf("it ended as %v", v["status"])
	}
	api.settle()
}

// TestCancel: a response behind its handler is cancelled by its owner alone, and deleted.
func TestCancel(t *testing.T) {
	e := slow()
	s, _ := newServer(e, &generatetest.Chat{})
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		id := object(t, ask(s, http.MethodPost, path, long+`,"background":true}`))["id"].(string)
		r := httptest.NewRequest(http.MethodPost, path+"/"+id+"/cancel", nil)
		r.Header.Set("Authorization", "Bearer other")
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != http.StatusNotFound || e.Running() != 1 {
			t.Errorf("another's cancel: %d %s", rec.Code, rec.Body)
		}
		if method == http.MethodDelete {
			if v := object(t, ask(s, method, path+"/"+id, "")); v["deleted"] != true {
				t.Errorf("got %v", v)
			}
		} else if v := object(t, ask(s, method, path+"/"+id+"/cancel", "")); v["status"] != statusCancelled {
			t.Errorf("got %v", v)
		}
		gone(t, e)
		rec = ask(s, http.MethodGet, path+"/"+id, "")
		if kept := rec.Code == http.StatusOK; kept != (method == http.MethodPost) {
			t.Errorf("%s: %d %s", method, rec.Code, rec.Body)
		}
	}
}

// TestPlaces: a response behind its handler takes a place of its client until it is over.
func TestPlaces(t *testing.T) {
	e := slow()
	s, api := newServer(e, &generatetest.Chat{})
	codes := map[int]int{}
	for range 20 {
		codes[ask(s, http.MethodPost, path, `{"input":"Hi","max_output_tokens":20,"background":true}`).Code]++
	}
	if codes[http.StatusOK] != 16 || codes[http.StatusTooManyRequests] != 4 {
		t.Errorf("of 20 responses in 16 places there are %v", codes)
	}
	api.settle()
	gone(t, e)
	object(t, ask(s, http.MethodPost, path, `{"input":"Hi","max_output_tokens":2}`))
}

// TestShutdown: the server waits for a response behind its handler; one that takes too long fails, and says why.
func TestShutdown(t *testing.T) {
	for name, grace := range map[string]time.Duration{"drained": 10 * time.Second, "cut off": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			e := slow()
			_, api := newServer(e, &generatetest.Chat{})
			c := config.Default().Server
			c.GracefulTerminationTimeout = config.Duration(grace)
			s := server.New(server.Options{Config: c, APIs: []server.API{api}, Healthy: e.Healthy,
				Log: slog.New(slog.DiscardHandler)})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error)
			go func() { served <- s.Serve(ctx, l) }()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			got, err := client.Post("http://"+l.Addr().String()+path, "application/json",
				strings.NewReader(long+`,"background":true}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = got.Body.Close()
			stop()
			err = <-served
			api.settle()
			_, rec, _ := api.known(withID("resp_A1"))
			status, _, _ := rec.output()
			if late := grace < time.Second; late != errors.Is(err, server.ErrGrace) ||
				status != map[bool]string{true: statusFailed, false: statusIncomplete}[late] {
				t.Errorf("%v, the response is %s", err, status)
			}
			if status == statusFailed && !strings.Contains(string(rec.Response), "Server is shutting down") {
				t.Errorf("it failed as %s", rec.Response)
			}
		})
	}
}

// withID is a request without a key for a response.
func withID(id string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path+"/"+id, nil)
	r.SetPathValue("response_id", id)
	return r
}

// TestLost: a response whose server is gone is failed for everybody else.
func TestLost(t *testing.T) {
	e := slow()
	s, api := newServer(e, &generatetest.Chat{})
	object(t, ask(s, http.MethodPost, path, `{"input":"Hi","max_output_tokens":20,"background":true}`))
	another := New(api.options)
	other := server.New(server.Options{Config: config.Default().Server, APIs: []server.API{another}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler)})
	another.now, another.owner = api.now, api.owner
	if v := object(t, ask(other, http.MethodGet, path+"/resp_A1", "")); v["status"] != queued {
		t.Errorf("elsewhere it is %v", v["status"])
	}
	for _, target := range []string{"GET /resp_A1?stream=true", "POST /resp_A1/cancel"} {
		method, rest, _ := strings.Cut(target, " ")
		if rec := ask(other, method, path+rest, ""); rec.Code != http.StatusConflict {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
	another.now = func() time.Time { return api.now().Add(2 * leaseLasts) }
	if v := object(t, ask(other, http.MethodGet, path+"/resp_A1", "")); v["status"] != statusFailed {
		t.Errorf("after its lease it is %v", v["status"])
	}
	api.settle()
	if v := object(t, ask(other, http.MethodGet, path+"/resp_A1", "")); v["status"] != statusIncomplete {
		t.Errorf("once it is over it is %v", v["status"])
	}
}

// TestExplain: what the engine tells of tokens is in the response, once in a stream, and kept with it.
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
	s, api := newServer(e, &generatetest.Chat{})
	const body = `{"input":"Hi","explain":{"top":1,"tokens":2}`
	whole := object(t, ask(s, http.MethodPost, path, body+`}`))
	kept := object(t, ask(s, http.MethodGet, path+"/"+whole["id"].(string), ""))
	stream := ask(s, http.MethodPost, path, body+`,"stream":true}`).Body.Bytes()
	streamed, _ := gather(t, stream)
	for name, v := range map[string]map[string]any{"whole": whole, "kept": kept, "streamed": streamed} {
		if list, _ := v["explain"].([]any); len(list) != 2 || list[1].(map[string]any)["rank"] != float64(41) {
			t.Errorf("%s: %v", name, v)
		}
	}
	if n := bytes.Count(stream, []byte(`"explain"`)); n != 1 {
		t.Errorf("%d times in the stream", n)
	}
	if v := object(t, ask(s, http.MethodPost, path, `{"input":"Hi"}`)); v["explain"] != nil {
		t.Errorf("nobody asked: %v", v)
	}
	api.settle()
}

// TestExplainedRounds: with tools of MCP servers a reply explains as many tokens as are asked for, of all its texts.
func TestExplainedRounds(t *testing.T) {
	five := uint64(5)
	e := &generate.Explain{Tokens: &five}
	if e = e.Left(3); *e.Tokens != 2 {
		t.Errorf("%d left of 5 behind 3", *e.Tokens)
	}
	if e = e.Left(3); *e.Tokens != 0 {
		t.Errorf("%d left of 2 behind 3", *e.Tokens)
	}
	if *(&generate.Explain{}).Left(56).Tokens != 200 || (*generate.Explain)(nil).Left(1) != nil {
		t.Error("the default is not 256, or none is something")
	}
}

// TestTooLarge: a response that cannot be kept says so.
func TestTooLarge(t *testing.T) {
	s, api := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	body := `{"max_output_tokens":2,"input":"` + strings.Repeat("x", 70<<10) + `"`
	if v := object(t, ask(s, http.MethodPost, path, body+`}`)); v["store"] != false {
		t.Errorf("store is %v", v["store"])
	}
	if rec := ask(s, http.MethodPost, path, body+`,"background":true}`); rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("behind: %d %s", rec.Code, rec.Body)
	}
	api.settle()
}

// FuzzDecode: a body is a call whose items survive being kept, or is refused.
func FuzzDecode(f *testing.F) {
	f.Add(`{"input":"Hi","tools":[{"type":"function","name":"a"}],"tool_choice":"required"}`)
	f.Add(`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"b"}]},` +
		`{"type":"function_call","call_id":"c","name":"n","arguments":"{}"},{"type":"function_call_output","call_id":"c",` +
		`"output":[{"type":"input_text","text":"x"}]},{"type":"reasoning","summary":[],"encrypted_content":"tgi1.aA"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := decode([]byte(body), true)
		if err != nil {
			return
		}
		var raw []json.RawMessage
		items := c.input[:0:0]
		for _, i := range c.input {
			if i.kind == kindReference {
				continue
			}
			i.show("x")
			raw, items = append(raw, i.json), append(items, i)
		}
		again, err := parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		one, two := messages(nil, items), messages(nil, again)
		for i := range one {
			if !json.Valid(one[i].JSON) || string(one[i].JSON) != string(two[i].JSON) {
				t.Fatalf("the template reads %s, and once it is kept %s", one[i].JSON, two[i].JSON)
			}
		}
	})
}

// TestNoCall: a call that is demanded and that the model does not make is the same failure whole and streamed: of the
// server's side, by the code that OpenAI's documents have for it. A demand that no request may have is a bad request.
func TestNoCall(t *testing.T) {
	const asked = `{"input":"Hi","tools":[{"type":"function","name":"get_time"}],"tool_choice":`
	for _, text := range []string{"It is five.", `<call>get_time c1 {"zone": </call>`,
		`<call>other c1 {}</call>`} {
		e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			var tokens []generate.Token
			for _, piece := range strings.SplitAfter(text, ">") {
				special := strings.HasPrefix(piece, "<call")
				tokens = append(tokens, generate.Token{Token: 9, Text: piece, Special: special})
			}
			return generatetest.Sequence(r, 0, llm.FinishEOS, tokens...)
		}}
		s, _ := newServer(e, &generatetest.Chat{Parse: true})
		rec := ask(s, http.MethodPost, path, asked+`"required"}`)
		var whole struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &whole); err != nil || rec.Code != http.StatusBadRequest ||
			whole.Error.Code != "server_error" {
			t.Errorf("%s: %d %s", text, rec.Code, rec.Body)
		}
		stream := ask(s, http.MethodPost, path, asked+`"required","stream":true}`).Body.String()
		want := fmt.Sprintf(`"status":"failed","background":false,"completed_at":null,"error":{"code":"server_error",`+
			`"message":%q}`, whole.Error.Message)
		if !strings.Contains(stream, "event: response.failed") || !strings.Contains(stream, want) {
			t.Errorf("%s: want %s, got %s", text, want, stream)
		}
		rec = ask(s, http.MethodPost, path, asked+`{"type":"function","name":"b"}}`)
		if rec.Code != http.StatusBadRequest {
			t.Errorf("another tool: %d %s", rec.Code, rec.Body)
		}
	}
}

// TestCutStates: each item of a reply that is cut has its own state, the same whole and streamed: what ended before is
// complete, also a call that the text was cut behind.
func TestCutStates(t *testing.T) {
	const (
		called = `<call>get_time c1 {"zone":"CET"}</call>`
		broken = `<call>get_time c0 {"zone": </call>`
	)
	for _, c := range []struct {
		text   string
		reason llm.Reason
		want   string // of the items, and of the response
		shown  int    // how many items a stream alone has, in front
	}{
		{"Both. " + called + `<call>get_time c2 {"zone":"U`, llm.FinishLength,
			"message completed, function_call completed, function_call incomplete, incomplete", 0},
		{"Both. " + called + `<call>get_time c2 {"zone":"U`, llm.FinishGuard,
			"message completed, function_call completed, function_call incomplete, incomplete", 0},
		{called, llm.FinishGuard, "function_call completed, incomplete", 0},
		{called + "So", llm.FinishGuard, "function_call completed, message incomplete, incomplete", 0},
		{called + "So", llm.FinishLength, "function_call completed, message completed, completed", 0},
		{broken + called, llm.FinishLength, "message completed, function_call completed, incomplete", 1},
	} {
		e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			var tokens []generate.Token
			for rest := c.text; rest != ""; {
				at := len(rest)
				for _, tag := range []string{"<call>", "</call>"} {
					switch i := strings.Index(rest, tag); {
					case i == 0:
						at = len(tag)
					case i > 0:
						at = min(at, i)
					}
				}
				piece := rest[:at]
				rest = rest[at:]
				tag := strings.HasSuffix(piece, "call>")
				tokens = append(tokens, generate.Token{Token: 9, Text: piece, Special: tag})
			}
			return generatetest.Sequence(r, 0, c.reason, tokens...)
		}}
		s, _ := newServer(e, &generatetest.Chat{Parse: true})
		const asked = `{"input":"Hi","tools":[{"type":"function","name":"get_time"}]`
		streamed, _ := gather(t, ask(s, http.MethodPost, path, asked+`,"stream":true}`).Body.Bytes())
		for i, response := range []map[string]any{object(t, ask(s, http.MethodPost, path, asked+"}")), streamed} {
			var got []string
			for _, one := range response["output"].([]any)[i*c.shown:] {
				item := one.(map[string]any)
				got = append(got, fmt.Sprint(item["type"], " ", item["status"]))
			}
			got = append(got, fmt.Sprint(response["status"]))
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("%s, %v, streamed %v: %s\nwant %s", c.text, c.reason, i == 1, s, c.want)
			}
		}
	}
}

// TestFailures: a model or a plugin that fails is a 500 of a whole reply, as in OpenAI's API, and TGI's type tells
// which; a stream ends with the event of a response that failed.
func TestFailures(t *testing.T) {
	for kind, err := range map[string]error{
		"plugin":     fmt.Errorf("%w: dry: tgi_logits_process: trap", llm.ErrPlugin),
		"generation": fmt.Errorf("%w: no memory", llm.ErrBackend),
	} {
		s, _ := newServer(&generatetest.Engine{Break: err}, &generatetest.Chat{})
		rec := ask(s, http.MethodPost, path, `{"input":"Hi"}`)
		if body := rec.Body.String(); rec.Code != http.StatusInternalServerError ||
			!strings.Contains(body, `"type":"server_error"`) || !strings.Contains(body, `"error_type":"`+kind+`"`) {
			t.Errorf("%s: %d %s", kind, rec.Code, body)
		}
		rec = ask(s, http.MethodPost, path, `{"input":"Hi","stream":true}`)
		if body := rec.Body.String(); rec.Code != http.StatusOK || !strings.Contains(body, `"response.failed"`) ||
			!strings.Contains(body, `"error":{"code":"server_error"`) {
			t.Errorf("%s, streamed: %d %s", kind, rec.Code, body)
		}
	}
}
