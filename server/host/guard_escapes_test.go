package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

const spelledCity = "Jürgen 😀, say \"hush\"\nin path/to"

// spelledCalls are the ways in which writers of JSON spell that city.
var spelledCalls = map[string]string{
	"as little as JSON needs": `Jürgen 😀, say \"hush\"\nin path/to`,
	"ASCII alone":             `J\u00fcrgen \ud83d\ude00, say \"hush\"\nin path/to`,
	"upper case":              `J\u00FCrgen \uD83D\uDE00, say \"hush\"\nin path\/to`,
	"any":                     `J\u00fcr\u0067en 😀, \u0073ay \u0022hush\u0022\u000ain p\u0061th\/t\u006f`,
}

// cities are what clients read as the city of the calls of a reply, and why it ends.
func (p *plugged) cities(t *testing.T, route, more string, stream bool) (cities []string, reason string) {
	t.Helper()
	objects := p.weather(t, route, more, 200, stream)
	for _, r := range cutCallRoutes {
		if r.name != route {
			continue
		}
		var calls []saidCall
		calls, reason = r.calls(!stream, objects)
		for _, call := range calls {
			var arguments struct{ City string }
			if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
				cities = append(cities, call.Arguments)
				continue
			}
			cities = append(cities, arguments.City)
		}
	}
	return cities, reason
}

// TestGuardsReadEscapes: what a client reads in the arguments of a call has no string that is replaced, however the
// model spelled it.
func TestGuardsReadEscapes(t *testing.T) {
	p := openForced(t, func(c *config.Config) {
		c.Server.Ollama = true
		c.Plugin = append(c.Plugin, config.Plugin{Name: "redact", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	const strs = `["Jürgen 😀","say \"hush\"\nin","path/to"]`
	for writer, spelled := range spelledCalls {
		text := "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"" + spelled + "\"}}\n</tool_call>"
		guarded := func(guard string) string {
			var more []string
			if guard != "" {
				more = append(more, fmt.Sprintf(`{"name":%q,"params":{"strings":%s}}`, guard, strs))
			}
			return strings.TrimPrefix(p.forced(t, text, more...), ",") + ","
		}
		for _, r := range cutCallRoutes {
			for _, stream := range []bool{false, true} {
				where := fmt.Sprintf("%s, %s, streamed %v", writer, r.name, stream)
				if got, _ := p.cities(t, r.name, guarded(""), stream); len(got) != 1 || got[0] != spelledCity {
					t.Fatalf("%s: without guards %q", where, got)
				}
				const want = "[redacted], [redacted] [redacted]"
				if got, _ := p.cities(t, r.name, guarded("redact"), stream); len(got) != 1 || got[0] != want {
					t.Errorf("%s: %q, want %q", where, got, want)
				}
			}
		}
	}
}

// TestBannedAsEscapes: a banned string is taken back however the model spells it. Here nothing else may follow, so the
// text ends in front of it.
func TestBannedAsEscapes(t *testing.T) {
	p := guarding(t, nil)
	for writer, spelled := range spelledCalls {
		for _, stream := range []bool{false, true} {
			type object = map[string]any
			body := object{"messages": []object{{"role": "user", "content": "Hi"}}, "temperature": 0, "max_tokens": 200,
				"response_format": object{"type": "choice", "value": []string{`{"city": "` + spelled + `"}`}},
				"plugins":         []object{{"name": "banned-strings", "params": object{"strings": []string{spelledCity}}}},
				"stream":          stream}
			request, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", request)
			text := contentOf(!stream, objectsOf(reply))
			if status != http.StatusOK || !strings.Contains(reply, `"content_filter"`) ||
				!strings.HasPrefix(`{"city": "`, text) {
				t.Errorf("%s, streamed %v: %d %q, %s", writer, stream, status, text, reply)
			}
		}
	}
}
