package responses

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/mcp"
	"tgi/server/mcp/mcptest"
)

// guarded ends a text that a guard ends.
const guarded = " (guarded)"

// rounds is an engine whose model says one text after the other.
func rounds(texts ...string) *generatetest.Engine {
	n := 0
	return &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		text, end := texts[min(n, len(texts)-1)], llm.FinishEOS
		n++
		if said, ok := strings.CutSuffix(text, guarded); ok {
			text, end = said, llm.FinishGuard
		}
		var tokens []generate.Token
		for _, w := range strings.SplitAfter(text, " ") {
			special := w == "<call>" || w == "</call>"
			tokens = append(tokens, generate.Token{Text: w, Special: special})
		}
		return generatetest.Sequence(r, 0, end, tokens...)
	}}
}

// withTools gives an API the tools of a server that this program runs.
func withTools(t *testing.T, a *API, change func(*config.Config)) {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.MCP = []config.MCP{{Name: "tools", Command: []string{me}, Env: map[string]string{mcptest.Variable: "tools"},
		Timeout: config.Duration(2 * time.Second)}}
	if change != nil {
		change(&c)
	}
	a.options.Tools = mcp.New(c, "1", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(a.options.Tools.Close)
}

const wanted = `"tools":[{"type":"mcp","server_label":"tools","require_approval":"never","allowed_tools":["greet","fails"]}]`

// types returns the types of a response's items.
func types(v map[string]any) (all []string) {
	for _, one := range v["output"].([]any) {
		all = append(all, one.(map[string]any)["type"].(string))
	}
	return all
}

// TestMCPGuarded: the calls of a text that a guard ended are not made, and the model does not go on.
func TestMCPGuarded(t *testing.T) {
	for _, stream := range []string{"", `"stream":true,`} {
		e := rounds(`<call>greet c1 {"name":"Ada"}</call> And`+guarded, "Done.")
		s, api := newServer(e, &generatetest.Chat{Parse: true})
		withTools(t, api, nil)
		body := ask(s, http.MethodPost, path, `{"input":"Hi",`+stream+wanted+`}`).Body.String()
		if strings.Contains(body, "Hi Ada") || strings.Contains(body, "Done.") ||
			!strings.Contains(body, "not made: a guard ended the reply") || !strings.Contains(body, "content_filter") {
			t.Errorf("got %s", body)
		}
	}
}

// TestMCPBroken: a call beside one that is broken, or that the reply's length cut, is not made, and says so: it is not
// under way for ever.
func TestMCPBroken(t *testing.T) {
	for _, broken := range []string{`<call>greet c2 {"name"`, `<call>greet c2 [1]</call>`} {
		for _, stream := range []bool{false, true} {
			s, api := newServer(rounds(`<call>greet c1 {"name":"Ada"}</call>`+broken, "Done."),
				&generatetest.Chat{Parse: true})
			withTools(t, api, nil)
			rec := ask(s, http.MethodPost, path, fmt.Sprintf(`{"input":"Hi","stream":%t,%s}`, stream, wanted))
			body := rec.Body.String()
			if stream {
				i := strings.LastIndex(body, `"response":{`)
				if i < 0 || strings.Count(body, `"type":"response.mcp_call.failed"`) != 1 {
					t.Fatalf("%s: %s", broken, body)
				}
				end := strings.IndexByte(body[i:], '\n')
				body = strings.TrimSuffix(body[i+len(`"response":`):i+end], "}")
			}
			var v struct {
				Output []struct {
					Type, Status, Arguments string
					Error                   struct{ Message string }
				}
			}
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			call := v.Output[1]
			if call.Type != kindMCPCall || call.Status != "failed" ||
				!strings.Contains(call.Error.Message, "not made: ") ||
				strings.Contains(body, "in_progress") || strings.Contains(body, "Hi Ada") {
				t.Errorf("%s, streamed %t: %s", broken, stream, body)
			}
		}
	}
}

// TestMCP: calls of tools of servers are made, and the model goes on with what they said.
func TestMCP(t *testing.T) {
	chat := &generatetest.Chat{Parse: true}
	s, api := newServer(rounds(`<call>greet c1 {"name":"Ada"}</call><call>fails c2 {"n":1}</call>`, "Done."), chat)
	withTools(t, api, nil)
	v := object(t, ask(s, http.MethodPost, path, `{"input":"Hi",`+wanted+`}`))
	if got := types(v); !slices.Equal(got, []string{kindMCPList, kindMCPCall, kindMCPCall, kindMessage}) {
		t.Fatalf("items %v", got)
	}
	out := v["output"].([]any)
	call, failed := out[1].(map[string]any), out[2].(map[string]any)
	if call["output"] != "Hi Ada" || call["status"] != "completed" || call["error"] != nil ||
		call["server_label"] != "tools" || call["arguments"] != `{"name":"Ada"}` {
		t.Errorf("the call: %v", call)
	}
	if failed["status"] != "failed" || failed["output"] != nil ||
		!strings.Contains(fmt.Sprint(failed["error"]), "it is broken") {
		t.Errorf("the call that failed: %v", failed)
	}
	if tools := out[0].(map[string]any)["tools"].([]any); len(tools) != 2 {
		t.Errorf("the list: %v", tools)
	}
	requests := chat.Requests()
	last := ""
	for _, r := range requests {
		if strings.HasPrefix(r, `{"messages"`) {
			last = r
		}
	}
	for _, want := range []string{`"role":"tool","tool_call_id":"c1","name":"greet","content":"Hi Ada"`,
		`"role":"tool","tool_call_id":"c2","name":"fails","content":"Error: it is broken"`, `"arguments":{"name":"Ada"}`} {
		if !strings.Contains(last, want) {
			t.Errorf("the model reads %s, want %s", last, want)
		}
	}
	// A response that follows has what the tools said.
	object(t, ask(s, http.MethodPost, path, fmt.Sprintf(`{"input":"And?","previous_response_id":%q}`, v["id"])))
	requests = chat.Requests()
	found := slices.ContainsFunc(requests[len(requests)-3:], func(r string) bool {
		return strings.Contains(r, `"content":"Hi Ada"`) && strings.Contains(r, "And?")
	})
	if !found {
		t.Errorf("the next response reads %v", requests[len(requests)-3:])
	}
}

// TestMCPStream: the events of a stream add up to the items, in order; behind the handler, too.
func TestMCPStream(t *testing.T) {
	for _, background := range []bool{false, true} {
		s, api := newServer(rounds(`Well. <call>greet c1 {"name":"Ada"}</call>`, "Done."),
			&generatetest.Chat{Parse: true})
		withTools(t, api, nil)
		rec := ask(s, http.MethodPost, path, fmt.Sprintf(`{"input":"Hi","stream":true,"background":%t,%s}`, background,
			wanted))
		var names []string
		seq := 0
		for line := range strings.Lines(rec.Body.String()) {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var e struct {
				Type     string
				Number   int `json:"sequence_number"`
				Response json.RawMessage
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			if e.Number != seq {
				t.Errorf("number %d, want %d", e.Number, seq)
			}
			seq++
			if !strings.HasSuffix(e.Type, ".delta") && e.Type != "response.queued" {
				names = append(names, strings.TrimPrefix(e.Type, "response."))
			}
		}
		want := "created in_progress output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done " +
			"output_item.added content_part.added output_text.done content_part.done output_item.done " +
			"output_item.added mcp_call.in_progress mcp_call_arguments.done mcp_call.completed output_item.done " +
			"output_item.added content_part.added output_text.done content_part.done output_item.done completed"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("background %t: got\n%s\nwant\n%s", background, got, want)
		}
	}
}

// TestMCPBounds: rounds end, calls of the client's own tools are left to it, and what cannot be had is an error.
func TestMCPBounds(t *testing.T) {
	call := `<call>greet - {"name":"Ada"}</call>`
	s, api := newServer(rounds(call), &generatetest.Chat{Parse: true})
	withTools(t, api, func(c *config.Config) { c.MCPLimits.Rounds = 2 })
	v := object(t, ask(s, http.MethodPost, path, `{"input":"Hi",`+wanted+`}`))
	if got := types(v); !slices.Equal(got, []string{kindMCPList, kindMCPCall, kindMCPCall, kindMessage}) {
		t.Errorf("a model that calls for ever: %v", got)
	}
	v = object(t, ask(s, http.MethodPost, path, `{"input":"Hi","max_tool_calls":1,"tool_choice":"required",`+wanted+`}`))
	if got := types(v); !slices.Equal(got, []string{kindMCPList, kindMCPCall, kindMessage}) {
		t.Errorf("one call: %v", got)
	}
	v = object(t, ask(s, http.MethodPost, path, `{"input":"Hi","max_output_tokens":3,`+wanted+`}`))
	if v["status"] != "incomplete" {
		t.Errorf("tokens that are used up: %v", v["status"])
	}
	s, api = newServer(rounds(call+`<call>mine c9 {}</call>`, "no"), &generatetest.Chat{Parse: true})
	withTools(t, api, nil)
	v = object(t, ask(s, http.MethodPost, path, `{"input":"Hi",`+strings.Replace(wanted, `[`,
		`[{"type":"function","name":"mine"},`, 1)+`}`))
	if got := types(v); !slices.Equal(got, []string{kindMCPList, kindMCPCall, kindCall}) {
		t.Errorf("with a call of the client's: %v", got)
	}
	api.options.Tools = nil
	if rec := ask(s, http.MethodPost, path, `{"input":"Hi",`+wanted+`}`); rec.Code != http.StatusBadRequest {
		t.Errorf("no server: %d %s", rec.Code, rec.Body)
	}
	withTools(t, api, func(c *config.Config) { c.MCP[0].Command = []string{"/no/such/program"} })
	if rec := ask(s, http.MethodPost, path, `{"input":"Hi",`+wanted+`}`); rec.Code != http.StatusFailedDependency ||
		!strings.Contains(rec.Body.String(), "`tools` cannot be reached") {
		t.Errorf("a server that is not there: %d %s", rec.Code, rec.Body)
	}
}
