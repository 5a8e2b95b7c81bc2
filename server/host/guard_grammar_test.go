package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestReplacementBeatsGrammar: what a guard replaces is replaced where a grammar or a strict tool holds the text, too,
// as docs/guards.md says: what comes of it need not fit, and the reply tells that there is other text. A call that is
// none then is none.
func TestReplacementBeatsGrammar(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "house", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways, Config: config.Table{"strings": []any{"Ostrel"}}})
	})
	held := func(member, schema string) string {
		return `{"type":"object","required":["` + member + `"],"additionalProperties":false,"properties":{"` + member + `":` +
			schema + `}}`
	}
	answer := func(schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + schema + `}}`
	}
	call := func(schema string) string {
		return `"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":` +
			schema + `}}]`
	}
	const number = `{"const":4111111111111111}`
	for request, want := range map[string]string{
		answer(held("town", `{"enum":["Ostrel"]}`)): `{"town":"[redacted]"}`,
		answer(held("Ostrel", `{"const":1}`)):       `{"[redacted]":1}`,
		answer(held("n", number)):                   `{"n":[redacted]}`,
		call(held("town", `{"enum":["Ostrel"]}`)):   `{"town":"[redacted]"}`,
		call(held("n", number)):                     "", // arguments that are no JSON
	} {
		status, reply := p.call(t, http.MethodPost, "/v1/chat/completions",
			[]byte(`{"messages":[{"role":"user","content":"Hi"}],"temperature":0,`+request+`}`))
		if want == "" {
			if status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", request, status, reply)
			}
			continue
		}
		var r struct {
			Choices []struct {
				Message struct {
					Content   string
					ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
			Usage struct {
				Details struct {
					Replaced int `json:"replaced_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(reply), &r); err != nil || len(r.Choices) != 1 {
			t.Fatalf("%s: %d %s", request, status, reply)
		}
		got := r.Choices[0].Message.Content
		if calls := r.Choices[0].Message.ToolCalls; len(calls) == 1 {
			got = calls[0].Function.Arguments
		}
		if got = strings.ReplaceAll(got, " ", ""); got != want || r.Usage.Details.Replaced == 0 {
			t.Errorf("%s: got %s, want %s: %s", request, got, want, reply)
		}
	}
}

// TestInsertedAgainstGrammar: what a guard inserts goes through the grammar of the request. Where it does not fit, the
// request ends with an error that names both; where it does, the text fits.
func TestInsertedAgainstGrammar(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "house", Source: "testdata/cuts/rules.wasm",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways,
			Config: config.Table{"string": "bc", "with": "#", "do": "insert"}})
	})
	for grammar, want := range map[string]string{"abcd": "", "a(bc|#)d": "a#d"} {
		status, reply := p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"prompt":"Hi","temperature":0,"max_tokens":20,"grammar":{"type":"regex","value":%q}}`, grammar))
		switch {
		case want != "" && (status != http.StatusOK || !strings.Contains(reply, `"text":"`+want+`"`)):
			t.Errorf("%s: %d %s", grammar, status, reply)
		case want == "" && (status != http.StatusUnprocessableEntity ||
			!strings.Contains(reply, "plugin house inserts") || !strings.Contains(reply, "grammar")):
			t.Errorf("%s: %d %s", grammar, status, reply)
		}
	}
}
