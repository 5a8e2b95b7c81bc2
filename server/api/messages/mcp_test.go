package messages

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/mcp"
	"tgi/server/mcp/mcptest"
)

// withTools is a server with the tools of an MCP server, whose model says one text after the other.
func withTools(t *testing.T, change func(*config.Config), texts ...string) (*server.Server, *generatetest.Chat) {
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
	m := dispatch.Model{ID: "demo", Service: generatetest.UserCode{Chat: chat}.On(
		generate.New(e, generatetest.Words{}, l, nil))}
	api := New(dispatchtest.One(&m), tools)
	api.name = func() string { return "A1" }
	return server.New(server.Options{Config: config.Default().Server, Keys: c.Key, APIs: []server.API{api},
		Healthy: e.Healthy, Log: slog.New(slog.DiscardHandler)}), chat
}

const (
	wantsTools = `,"tools":[{"type":"mcp_toolset","mcp_server_name":"tools"}]`
	greet      = `<call>greet c1 {"name":"Ada"}</call>`
	guarded    = " (guarded)" // at the end of a text that a guard ends
	asking     = `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`
)

// replied is what tests read of a message.
type replied struct {
	Content []struct {
		Type, Text, ID, Name string
		Server               string `json:"server_name"`
		Of                   string `json:"tool_use_id"`
		Failed               bool   `json:"is_error"`
		Input                json.RawMessage
		Content              []struct{ Text string }
	}
	Stop  string `json:"stop_reason"`
	Usage struct {
		Output int `json:"output_tokens"`
	}
}

func (r *replied) types() (out []string) {
	for _, b := range r.Content {
		out = append(out, b.Type)
	}
	return out
}

// TestMCP: servers make their calls, and the client reads what came of it, whole and streamed.
func TestMCP(t *testing.T) {
	s, seen := withTools(t, nil, "Well. "+greet, "Done.")
	rec := post(s, asking+wantsTools+`}`)
	var v replied
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || rec.Code != http.StatusOK {
		t.Fatal(rec.Code, rec.Body)
	}
	if got := v.types(); !slices.Equal(got, []string{"text", "mcp_tool_use", "mcp_tool_result", "text"}) {
		t.Fatalf("blocks are %q in %s", got, rec.Body)
	}
	use, result := v.Content[1], v.Content[2]
	if use.Name != "greet" || use.Server != "tools" || string(use.Input) != `{"name":"Ada"}` || result.Of != use.ID ||
		result.Failed || result.Content[0].Text != "Hi Ada" || v.Content[3].Text != "Done." || v.Stop != "end_turn" ||
		v.Usage.Output != 5 {
		t.Errorf("got %s", rec.Body)
	}
	read := strings.Join(seen.Requests(), "\n")
	if !strings.Contains(read, `{"role":"tool","tool_call_id":"c1","name":"greet","content":"Hi Ada"}`) {
		t.Errorf("the model reads %s", read)
	}

	s, _ = withTools(t, nil, "Well. "+greet, "Done.")
	stream := post(s, asking+wantsTools+`,"stream":true}`).Body.String()
	for _, want := range []string{
		`"index":1,"content_block":{"type":"mcp_tool_use","id":"c1","name":"greet","server_name":"tools","input":{}}}`,
		`"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"name\":\"Ada\"}"}}`,
		`"index":2,"content_block":{"type":"mcp_tool_result","tool_use_id":"c1","is_error":false,"content":[{"type":` +
			`"text","text":"Hi Ada"}]}}`,
		`{"type":"content_block_stop","index":2}`,
		`"index":3,"delta":{"type":"text_delta","text":"Done."}}`, `"stop_reason":"end_turn"`, `"output_tokens":5`,
	} {
		if !strings.Contains(stream, want) {
			t.Errorf("%s is not in\n%s", want, stream)
		}
	}
}

// TestMCPGuarded: the calls of a text that a guard ended are not made, and the model does not go on.
func TestMCPGuarded(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		s, _ := withTools(t, nil, greet+" And"+guarded, "Done.")
		body := post(s, asking+wantsTools+stream+`}`).Body.String()
		if strings.Contains(body, "Hi Ada") || strings.Contains(body, "Done.") ||
			!strings.Contains(body, `"is_error":true,"content":[{"type":"text","text":"not made: a guard ended the reply"}]`) ||
			!strings.Contains(body, `"stop_reason":"refusal"`) {
			t.Errorf("got %s", body)
		}
	}
}

// TestMCPBroken: a call beside one that is broken is not made, and says so.
func TestMCPBroken(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		s, _ := withTools(t, nil, greet+`<call>greet c2 {"name"`, "Done.")
		body := post(s, asking+wantsTools+stream+`}`).Body.String()
		if strings.Contains(body, "Hi Ada") || strings.Contains(body, "Done.") ||
			!strings.Contains(body, `"tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"not made: another call `) {
			t.Errorf("got %s", body)
		}
	}
}

// TestMCPAndOwn: where a turn calls the client's own tools too, the server's calls are made and the client makes its.
func TestMCPAndOwn(t *testing.T) {
	s, _ := withTools(t, nil, greet+` <call>mine c2 {"x":1}</call>`, "Done.")
	rec := post(s, asking+strings.Replace(wantsTools, "[", `[{"name":"mine","input_schema":{"type":"object"}},`, 1)+`}`)
	var v replied
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatal(rec.Code, rec.Body)
	}
	if got := v.types(); v.Stop != "tool_use" || !slices.Equal(got, []string{"mcp_tool_use", "tool_use",
		"mcp_tool_result"}) {
		t.Errorf("%s: blocks are %q in %s", v.Stop, got, rec.Body)
	}
}

// TestMCPHistory: blocks of a turn in which a server ran tools are read as the messages that they were.
func TestMCPHistory(t *testing.T) {
	s, seen := withTools(t, nil, "Yes.")
	rec := post(s, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":[
		{"type":"text","text":"Well."},
		{"type":"mcp_tool_use","id":"c1","name":"greet","server_name":"tools","input":{"name":"Ada"}},
		{"type":"mcp_tool_result","tool_use_id":"c1","is_error":false,"content":[{"type":"text","text":"Hi Ada"}]},
		{"type":"text","text":"Done."}]},{"role":"user","content":"And?"}]}`)
	if rec.Code != http.StatusOK {
		t.Fatal(rec.Code, rec.Body)
	}
	want := `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Well.",` +
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"greet","arguments":{"name":"Ada"}}}]},{"role":"tool","tool_call_id":"c1",` +
		`"name":"greet","content":"Hi Ada"},{"role":"assistant","content":"Done."},{"role":"user","content":"And?"}]`
	if got := seen.Requests()[0]; !strings.HasPrefix(got, want) {
		t.Errorf("the model reads\n%s, want\n%s", got, want)
	}
	rec = post(s, `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"mcp_tool_result",`+
		`"tool_use_id":"c9","content":"x"}]}]}`)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "c9") {
		t.Errorf("a result without a call: %d %s", rec.Code, rec.Body)
	}
}

// TestMCPBounds: what is not asked for is not offered, what cannot be is refused, and rounds end.
func TestMCPBounds(t *testing.T) {
	s, seen := withTools(t, nil, greet)
	post(s, asking+`}`)
	if strings.Contains(seen.Requests()[0], "greet") {
		t.Error("tools are offered that nobody asked for")
	}
	for fields, want := range map[string]string{
		`,"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`:     "no MCP server `x`, these are: tools",
		`,"mcp_servers":[{"type":"url","url":"http://x","name":"x"}]`: "`mcp_servers` must be empty",
		`,"tools":[{"type":"mcp_toolset","mcp_server_name":"tools","default_config":{"enabled":false},` +
			`"configs":{"no":{"enabled":true}}}]`: "has no tool `no`",
	} {
		rec := post(s, asking+fields+`}`)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", fields, rec.Code, rec.Body)
		}
	}
	s, seen = withTools(t, nil, "Done.")
	post(s, asking+`,"tools":[{"type":"mcp_toolset","mcp_server_name":"tools",`+
		`"configs":{"greet":{"enabled":false}}}]}`)
	if got := seen.Requests()[0]; strings.Contains(got, `"greet"`) || !strings.Contains(got, `"slow"`) {
		t.Errorf("a tool that is switched off: %s", got)
	}
	for _, stream := range []string{"", `,"stream":true`} {
		s, _ := withTools(t, nil, greet)
		rec := post(s, strings.Replace(asking, "50", "90", 1)+wantsTools+stream+`}`)
		if n := strings.Count(rec.Body.String(), `"Hi Ada"`); n != 8 { // mcp_limits.rounds
			t.Errorf("%d rounds: %s", n, rec.Body)
		}
		if !strings.Contains(rec.Body.String(), `"stop_reason":"end_turn"`) {
			t.Errorf("the last round ends with %s", rec.Body)
		}
		rec = post(s, strings.Replace(asking, "50", "2", 1)+wantsTools+stream+`}`)
		if !strings.Contains(rec.Body.String(), `"stop_reason":"max_tokens"`) {
			t.Errorf("tokens that are used up: %s", rec.Body)
		}
	}
}

// TestMCPDown: a server that cannot be reached is the request's error, which no retry helps, and its address is not
// for clients.
func TestMCPDown(t *testing.T) {
	s, _ := withTools(t, func(c *config.Config) {
		c.MCP = []config.MCP{{Name: "tools", Endpoint: "http://127.0.0.1:1/secret"}}
	}, "Done.")
	rec := post(s, asking+wantsTools+`}`)
	text := rec.Body.String()
	if rec.Code != http.StatusBadRequest || !strings.Contains(text, "`tools`") || strings.Contains(text, "secret") ||
		strings.Contains(text, "127.0.0.1") {
		t.Errorf("%d %s", rec.Code, text)
	}
}
