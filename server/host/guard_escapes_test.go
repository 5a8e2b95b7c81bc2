package host

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tgi/server/config"
)

// spelledCalls are calls whose city is the same, and writers of JSON that spell it so.
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

// TestGuardsReadEscapes: what a client reads in the arguments of a call has no string that is replaced, or that is
// banned, however the model spelled it.
func TestGuardsReadEscapes(t *testing.T) {
	p := openForced(t, func(c *config.Config) {
		c.Server.Ollama = true
		for _, name := range []string{"redact", "banned-strings"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
	})
	city := "Jürgen 😀, say \"hush\"\nin path/to"
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
				if got, _ := p.cities(t, r.name, guarded(""), stream); len(got) != 1 || got[0] != city {
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
