package openai

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/mcp"
	"tgi/server/mcp/mcptest"
)

// chatting is a server with the tools of an MCP server, whose model says one text after the other.
func chatting(t *testing.T, change func(*config.Config), texts ...string) (*server.Server, *generatetest.Chat) {
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
	tools := mcp.New(c, "1", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(tools.Close)
	n := 0
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		text, end := texts[min(n, len(texts)-1)], llm.FinishEOS
		n++
		if said, ok := strings.CutSuffix(text, guarded); ok {
			text, end = said, llm.FinishGuard
		}
		var tokens []generate.Token
		for _, w := range strings.SplitAfter(text, " ") {
			tokens = append(tokens, generate.Token{Text: w})
		}
		return generatetest.Sequence(r, 0, end, tokens...)
	}}
	chat := &generatetest.Chat{Parse: true}
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 200, 400
	m := dispatch.Model{ID: "demo", Limits: config.Limits{MaxInputTokens: 200, MaxTotalTokens: 400,
		MaxClientBatchSize: 4}, Service: generatetest.UserCode{Chat: chat}.On(generate.New(e, generatetest.Words{}, l,
		nil))}
	api := New(Options{Models: dispatchtest.One(&m), Dialect: dialect.Default(), Tools: tools})
	return server.New(server.Options{Config: config.Default().Server, Keys: c.Key, APIs: []server.API{api},
		Healthy: e.Healthy, Log: slog.New(slog.DiscardHandler)}), chat
}

func chat(s http.Handler, key, fields string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"Hi"}]`+fields+`}`))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

const (
	mcpTools = `,"tools":[{"type":"mcp","server_label":"tools","require_approval":"never"}]`
	greet    = `<call>greet c1 {"name":"Ada"}</call>`
	guarded  = " (guarded)" // at the end of a text that a guard ends
)

// TestMCPGuarded: the calls of a text that a guard ended are not made, and the model does not go on.
func TestMCPGuarded(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		s, _ := chatting(t, nil, greet+" And"+guarded, "Done.")
		body := chat(s, "", mcpTools+stream).Body.String()
		if strings.Contains(body, "Hi Ada") || strings.Contains(body, "Done.") ||
			!strings.Contains(body, `"finish_reason":"content_filter"`) ||
			stream == "" && !strings.Contains(body, "not made: a guard ended the reply") {
			t.Errorf("got %s", body)
		}
	}
}

// TestMCPBroken: a call beside one that is broken is not made, and says so.
func TestMCPBroken(t *testing.T) {
	s, _ := chatting(t, nil, greet+`<call>greet c2 {"name"`, "Done.")
	body := chat(s, "", mcpTools).Body.String()
	if strings.Contains(body, "Hi Ada") || strings.Contains(body, "Done.") ||
		!strings.Contains(body, "not made: another call of the reply is broken") {
		t.Errorf("got %s", body)
	}
}

// answered is what tests read of a reply.
type answered struct {
	Choices []struct {
		Message, Delta struct {
			Content string
			Calls   []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
			Made []struct {
				ID, Name, Output, Arguments, Error string
				Label                              string `json:"server_label"`
			} `json:"mcp_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage struct {
		Completion int `json:"completion_tokens"`
	}
}

// TestMCP: servers make their calls, and the client reads what came of it, whole and streamed.
func TestMCP(t *testing.T) {
	s, seen := chatting(t, nil, "Well. "+greet, "Done.")
	rec := chat(s, "", mcpTools)
	var c answered
	if err := json.Unmarshal(rec.Body.Bytes(), &c); err != nil || rec.Code != 200 {
		t.Fatal(rec.Code, rec.Body)
	}
	one := c.Choices[0]
	if one.Message.Content != "Well. Done." || one.Finish != "stop" || len(one.Message.Calls) != 0 ||
		len(one.Message.Made) != 1 || c.Usage.Completion != 5 {
		t.Errorf("got %s", rec.Body)
	}
	if made := one.Message.Made[0]; made.Output != "Hi Ada" || made.Label != "tools" || made.Name != "greet" ||
		made.Arguments != `{"name":"Ada"}` {
		t.Errorf("made %+v", made)
	}
	requests := strings.Join(seen.Requests(), "\n")
	if !strings.Contains(requests, `{"role":"tool","tool_call_id":"c1","name":"greet","content":"Hi Ada"}`) {
		t.Errorf("the model reads %s", requests)
	}

	s, _ = chatting(t, nil, "Well. "+greet, `<call>mine c2 {"x":1}</call>`)
	rec = chat(s, "", strings.Replace(mcpTools, "[", `[{"type":"function","function":{"name":"mine"}},`, 1)+
		`,"stream":true`)
	var content, arguments, finish, output string
	roles := 0
	for line := range strings.Lines(rec.Body.String()) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		roles += strings.Count(data, `"role":"assistant"`)
		var c answered
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		d := c.Choices[0].Delta
		content += d.Content
		finish += c.Choices[0].Finish
		for _, call := range d.Calls {
			if call.Index != 0 || call.Function.Name != "" && call.Function.Name != "mine" {
				t.Errorf("the client is told of %+v", call)
			}
			arguments += call.Function.Arguments
		}
		for _, made := range d.Made {
			output += made.Output
		}
	}
	if content != "Well. " || arguments != `{"x":1}` || finish != "tool_calls" || output != "Hi Ada" || roles != 1 ||
		!strings.HasSuffix(rec.Body.String(), "data: [DONE]\n\n") {
		t.Errorf("%q %q %q %q, %d roles in\n%s", content, arguments, finish, output, roles, rec.Body)
	}
}

// TestMCPBounds: what is not asked for is not offered, what cannot be is refused, and rounds end.
func TestMCPBounds(t *testing.T) {
	s, seen := chatting(t, nil, greet)
	chat(s, "", "")
	if strings.Contains(seen.Requests()[0], "greet") {
		t.Error("tools are offered that nobody asked for")
	}
	for fields, want := range map[string]string{
		mcpTools + `,"n":2`: "for requests with one choice",
		`,"tools":[{"type":"mcp","server_label":"x","require_approval":"never"}]`:                             "no MCP server `x`, these are: tools",
		`,"tools":[{"type":"mcp","server_label":"tools","server_url":"http://x","require_approval":"never"}]`: "tools[0].server_url",
		`,"tools":[{"type":"mcp","server_label":"tools"}]`:                                                    "tools[0].require_approval",
	} {
		if rec := chat(s, "", fields); rec.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", fields, rec.Code, rec.Body)
		}
	}
	for _, stream := range []string{"", `,"stream":true`} {
		rec := chat(s, "", mcpTools+stream)
		if n := strings.Count(rec.Body.String(), `"output":"Hi Ada"`); n != 8 { // mcp_limits.rounds
			t.Errorf("%d rounds: %s", n, rec.Body)
		}
		if !strings.Contains(rec.Body.String(), `"finish_reason":"stop"`) {
			t.Errorf("the last round ends with %s", rec.Body)
		}
		rec = chat(s, "", mcpTools+stream+`,"max_tokens":2`)
		if !strings.Contains(rec.Body.String(), `"finish_reason":"length"`) {
			t.Errorf("tokens that are used up: %s", rec.Body)
		}
	}
}

// TestMCPPolicy: a key's requests are offered the tools that the settings say.
func TestMCPPolicy(t *testing.T) {
	s, _ := chatting(t, func(c *config.Config) {
		c.MCP[0].AllowedTools = []string{"greet"}
		c.Key = []config.Key{
			{Name: "a", Key: "a", Scopes: []string{config.ScopeGenerate}, MCP: []string{"tools"}},
			{Name: "b", Key: "b", Scopes: []string{config.ScopeGenerate}},
		}
	}, greet, "Done.")
	if rec := chat(s, "a", ""); !strings.Contains(rec.Body.String(), `"output":"Hi Ada"`) {
		t.Errorf("with the policy: %s", rec.Body)
	}
	if rec := chat(s, "b", ""); strings.Contains(rec.Body.String(), "mcp_calls") {
		t.Errorf("without one: %s", rec.Body)
	}
}
