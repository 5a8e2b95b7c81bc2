package host

import (
	"fmt"
	"net/http"
	"testing"
)

// TestProgramsTakeWhatPasses: behind a guard a built-in program ends as the grammar does wherever one of the grammar's
// texts passes, however unlikely the model has it, also where the guard knows that at the end alone; only where none
// does the guard ends it. So it is whatever the settings say.
func TestProgramsTakeWhatPasses(t *testing.T) {
	p := programming(t, nil)
	settings := []string{`"temperature":0`, `"seed":5,"temperature":1.2,"logprobs":true,"top_logprobs":3`,
		`"temperature":0,"stream":true`, `"frequency_penalty":1.5,"logit_bias":{"7":-5},"temperature":0`}
	for i, c := range []struct{ grammar, banned, want string }{
		{`"regex","value":"(yes|no)"`, `"strings":["no"]`, "yes"},
		{`"regex","value":"(yes|no)"`, `"strings":["yes"]`, "no"},
		{`"regex","value":"(yes|no)"`, `"strings":["no"],"whole_word":true`, "yes"},
		{`"regex","value":"(yes|no)"`, `"strings":["yes"],"whole_word":true`, "no"},
		{`"regex","value":"(red|green|blue)"`, `"strings":["red","blue"]`, "green"},
		{`"regex","value":"(red|green|blue)"`, `"strings":["green","blue"]`, "red"},
		{`"regex","value":"so(yes|no)?"`, `"strings":["yes","no"]`, "so"},
		{`"regex","value":"(yes|no)?"`, `"strings":["yes","no"]`, ""},
		{`"json_object","value":{"enum":["Rome","Oslo"]}`, `"strings":["Oslo"]`, `"Rome"`},
		{`"json_object","value":{"enum":["Rome","Oslo"]}`, `"strings":["Rome"]`, `"Oslo"`},
		{`"json_object","value":{"enum":["Rome","Oslo"]}`, `"strings":["Rome"],"depth":2`, `"Oslo"`},
	} {
		for j, program := range builtinPrograms {
			set := settings[(i+j)%len(settings)]
			status, got := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil,
				`{"messages":[{"role":"user","content":"Tell me."}],"max_tokens":40,%s,"response_format":{"type":%s},`+
					`"plugins":[%s,{"name":"banned-strings","params":{%s}}]}`, set, c.grammar, program, c.banned))
			if text, reason := saidInChat(t, got); status != http.StatusOK || text != c.want || reason != "stop" {
				t.Errorf("%s without %s, %s, %s: %d %q, %s", c.grammar, c.banned, program, set, status, text, reason)
			}
		}
	}
	for _, program := range builtinPrograms {
		_, got := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil,
			`{"messages":[{"role":"user","content":"Tell me."}],"max_tokens":40,"temperature":0,"response_format":`+
				`{"type":"regex","value":"(yes|no)"},"plugins":[%s,{"name":"banned-strings","params":{"strings":["yes","no"]}}]}`,
			program))
		if text, reason := saidInChat(t, got); reason != "content_filter" || text != "" {
			t.Errorf("%s: %q, %s", program, text, reason)
		}
	}
	p.settled(t)
}
