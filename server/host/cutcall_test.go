package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/server/api/toolset"
	"tgi/server/config"
	"tgi/server/dialect"
)

// saidCall is a call of a reply.
type saidCall struct{ Name, Arguments string }

// cutCallRoute is an API that has tools: how many tokens a body may get has a place, and what else it says. calls
// reads the calls of a whole reply or of the events of a stream, and why the text ended.
type cutCallRoute struct {
	name, path, body, tool string
	dialect                string
	forced                 string // the member that demands a call; none where the API has none
	calls                  func(whole bool, objects []map[string]any) ([]saidCall, string)
}

var cutCallRoutes = []cutCallRoute{
	{"chat", "/v1/chat/completions", `{"model":"x","max_tokens":%d,%s}`, cityTool, "tgi-3",
		`"tool_choice":"required",`, chatCalls},
	{"chat of TGI 2.2", "/v1/chat/completions", `{"model":"x","max_tokens":%d,%s}`, cityTool,
		"tgi-2.2", `"tool_choice":"required",`, chatCalls},
	{"responses", "/v1/responses", `{"model":"x","max_output_tokens":%d,%s}`,
		`{"type":"function","name":"get_weather","parameters":` + cityOf + `}`, "", `"tool_choice":"required",`,
		responseCalls},
	{"messages", "/v1/messages", `{"model":"x","max_tokens":%d,%s}`, `{"name":"get_weather","input_schema":` + cityOf +
		`}`, "", `"tool_choice":{"type":"any"},`, messageCalls},
	{"Ollama", "/api/chat", `{"model":"m","options":{"num_predict":%d,"temperature":0},%s}`, cityTool,
		"", "", ollamaCalls},
}

const (
	cityOf = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

	cityTool = `{"type":"function","function":{"name":"get_weather","parameters":` + cityOf + `}}`
)

func member[T any](v any, path ...any) (out T) {
	for _, key := range path {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return out
			}
			v = list[key]
		}
	}
	out, _ = v.(T)
	return out
}

func chatCalls(whole bool, objects []map[string]any) (calls []saidCall, reason string) {
	for _, o := range objects {
		c := member[any](o, "choices", 0)
		if r := member[string](c, "finish_reason"); r != "" {
			reason = r
		}
		if whole {
			for _, call := range member[[]any](c, "message", "tool_calls") {
				args := member[any](call, "function", "arguments")
				text, ok := args.(string)
				if !ok {
					b, _ := json.Marshal(args)
					text = string(b)
				}
				calls = append(calls, saidCall{member[string](call, "function", "name"), text})
			}
			continue
		}
		list := member[[]any](c, "delta", "tool_calls")
		if one := member[map[string]any](c, "delta", "tool_calls"); one != nil { // of older dialects
			list = []any{one}
		}
		for _, call := range list {
			at := int(member[float64](call, "index"))
			if at == len(calls) {
				calls = append(calls, saidCall{Name: member[string](call, "function", "name")})
			}
			calls[at].Arguments += member[string](call, "function", "arguments")
		}
	}
	return calls, reason
}

func responseCalls(whole bool, objects []map[string]any) (calls []saidCall, reason string) {
	last := objects[len(objects)-1]
	if !whole {
		begun := 0
		for _, o := range objects {
			switch {
			case o["type"] == "response.output_item.added" && member[string](o, "item", "type") == "function_call":
				begun++
				calls = append(calls, saidCall{Name: member[string](o, "item", "name")})
			case o["type"] == "response.function_call_arguments.delta":
				calls[begun-1].Arguments += member[string](o, "delta")
			}
		}
		return calls, member[string](last, "response", "status")
	}
	for _, item := range member[[]any](last, "output") {
		if member[string](item, "type") == "function_call" {
			calls = append(calls, saidCall{member[string](item, "name"), member[string](item, "arguments")})
		}
	}
	return calls, member[string](last, "status")
}

func messageCalls(whole bool, objects []map[string]any) (calls []saidCall, reason string) {
	for _, o := range objects {
		switch {
		case whole:
			for _, block := range member[[]any](o, "content") {
				if member[string](block, "type") == "tool_use" {
					b, _ := json.Marshal(member[any](block, "input"))
					calls = append(calls, saidCall{member[string](block, "name"), string(b)})
				}
			}
			reason = member[string](o, "stop_reason")
		case member[string](o, "content_block", "type") == "tool_use":
			calls = append(calls, saidCall{Name: member[string](o, "content_block", "name")})
		case member[string](o, "delta", "type") == "input_json_delta":
			calls[len(calls)-1].Arguments += member[string](o, "delta", "partial_json")
		case o["type"] == "message_delta":
			reason = member[string](o, "delta", "stop_reason")
		}
	}
	return calls, reason
}

func ollamaCalls(_ bool, objects []map[string]any) (calls []saidCall, reason string) {
	for _, o := range objects {
		for _, call := range member[[]any](o, "message", "tool_calls") {
			b, _ := json.Marshal(member[any](call, "function", "arguments"))
			calls = append(calls, saidCall{member[string](call, "function", "name"), string(b)})
		}
		if r := member[string](o, "done_reason"); r != "" {
			reason = r
		}
	}
	return calls, reason
}

// TestCutCalls: wherever max_tokens cuts a tool call, a whole reply has the calls of the stream, with as much of their
// arguments; where arguments are an object, with the members that are complete. A call that is cut is never one to
// execute: the reason says so, and its arguments are no JSON.
func TestCutCalls(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Server.Ollama = true })
	for _, r := range cutCallRoutes {
		read := func(n int, stream bool) ([]saidCall, string) {
			t.Helper()
			return r.calls(!stream, p.weather(t, r.name, "", n, stream))
		}
		states := map[string]int{}
		for n := 1; states["called"] == 0 && n < 60; n++ {
			whole, reason := read(n, false)
			stream, why := read(n, true)
			objects := r.name == "messages" || r.dialect == "tgi-2.2"
			for i := range stream {
				cut := !json.Valid([]byte(stream[i].Arguments))
				if states["cut"] += map[bool]int{true: 1}[cut]; objects {
					stream[i].Arguments = canonical(toolset.Whole(stream[i].Arguments))
				}
				called := slices.Contains([]string{"tool_calls", "tool_use", "completed"}, reason)
				if cut && called {
					t.Errorf("%s, %d tokens: %s, but the call is cut: %+v", r.name, n, reason, stream)
				}
				if !cut {
					states["called"]++
				}
			}
			if !slices.Equal(whole, stream) || reason != why {
				t.Errorf("%s, %d tokens: %s %+v\nstreamed %s %+v", r.name, n, reason, whole, why, stream)
			}
		}
		if states["called"] == 0 || states["cut"] < 3 && r.name != "Ollama" {
			t.Errorf("%s: %v", r.name, states)
		}
	}
}

// weather asks one of cutCallRoutes for a call, in n tokens at most; more are members of the body. It returns the
// reply, or the events of its stream.
func (p *plugged) weather(t *testing.T, route, more string, n int, stream bool) (objects []map[string]any) {
	t.Helper()
	r := cutCallRoutes[slices.IndexFunc(cutCallRoutes, func(r cutCallRoute) bool { return r.name == route })]
	messages := `"messages":[{"role":"user","content":"Weather in Paris?"}],"temperature":0`
	switch r.name {
	case "responses":
		messages = `"input":"Weather in Paris?","temperature":0`
	case "Ollama":
		messages = `"messages":[{"role":"user","content":"Weather in Paris?"}]`
	}
	body := fmt.Appendf(nil, r.body, n, fmt.Sprintf(`%s%s,"tools":[%s],"stream":%v`, more, messages, r.tool, stream))
	status, text := p.call(t, http.MethodPost, r.path, body, dialect.Header, r.dialect)
	if status != http.StatusOK {
		t.Fatalf("%s, %d: %d %s", r.name, n, status, text)
	}
	return objectsOf(text)
}

// objectsOf are the objects of a reply, or of the lines of a stream.
func objectsOf(text string) (objects []map[string]any) {
	for line := range strings.SplitSeq(text, "\n") {
		var o map[string]any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &o) == nil {
			objects = append(objects, o)
		}
	}
	return objects
}

// contentOf is the content of a reply or of the events of its stream, on any of cutCallRoutes.
func contentOf(whole bool, objects []map[string]any) (text string) {
	for _, o := range objects {
		switch {
		case o["type"] == "response.output_text.delta":
			text += member[string](o, "delta")
		case member[string](o, "delta", "type") == "text_delta":
			text += member[string](o, "delta", "text")
		case !whole:
			text += member[string](o, "choices", 0, "delta", "content")
		}
		text += member[string](o, "message", "content") // of Ollama
		if !whole {
			continue
		}
		text += member[string](o, "choices", 0, "message", "content")
		for _, block := range member[[]any](o, "content") {
			text += member[string](block, "text")
		}
		for _, item := range member[[]any](o, "output") {
			for _, part := range member[[]any](item, "content") {
				text += member[string](part, "text")
			}
		}
	}
	return text
}

// TestForcedCallsCutInTheirMarker: of a call that is demanded and that max_tokens cuts before it has a name nothing is
// content, streamed or whole.
func TestForcedCallsCutInTheirMarker(t *testing.T) {
	p := sharedChat(t)
	for _, r := range cutCallRoutes {
		if r.forced == "" {
			continue
		}
		for n := 1; n < 16; n++ {
			for _, stream := range []bool{false, true} {
				objects := p.weather(t, r.name, r.forced, n, stream)
				calls, reason := r.calls(!stream, objects)
				if text := contentOf(!stream, objects); text != "" || n < 4 && len(calls) > 0 ||
					!slices.Contains([]string{"length", "max_tokens", "incomplete"}, reason) {
					t.Errorf("%s, %d tokens, streamed %v: content %q, calls %+v, %s", r.name, n, stream, text, calls,
						reason)
				}
			}
		}
	}
}

// TestOllamaShowsCutCalls: Ollama's API has no words for a call that is cut, and its clients execute all that they get,
// so what the model wrote of one is content: none of it is lost, streamed or whole.
func TestOllamaShowsCutCalls(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Server.Ollama = true })
	last := ""
	for n := 1; ; n++ {
		whole, stream := p.weather(t, "Ollama", "", n, false), p.weather(t, "Ollama", "", n, true)
		calls, reason := ollamaCalls(true, whole)
		text := contentOf(true, whole)
		if streamed := contentOf(false, stream); streamed != text {
			t.Errorf("%d tokens: %q, streamed %q", n, text, streamed)
		}
		if len(calls) > 0 {
			if n < 20 || text != "" {
				t.Errorf("%d tokens: %+v beside %q", n, calls, text)
			}
			return
		}
		if reason != "length" || !strings.HasPrefix(text, last) || len(text) <= len(last) {
			t.Fatalf("%d tokens: %q, behind %q, %s", n, text, last, reason)
		}
		last = text
	}
}

// canonical is JSON as encoding/json writes it.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	b, _ := json.Marshal(v)
	return string(b)
}
