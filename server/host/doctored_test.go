package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tgi/server/client/call"
	"tgi/server/client/replay"
	"tgi/server/config"
)

// TestDoctoredReplies: a kept reply that says another thing than was generated differs, at whichever of the places that
// say it, and on each route, streamed or not: its receipt being as it was, the report tells that the tokens are the
// same.
func TestDoctoredReplies(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Server.Ollama = true })
	c, err := call.New(p.url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	const (
		schema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`
		tool   = `{"type":"function","function":{"name":"get_weather","parameters":` + schema + `}}`
		called = `"messages":[{"role":"user","content":"What is the weather in Paris?"}],"model":"x","explain":"receipt"`
		asked  = `"messages":[{"role":"user","content":"What is three plus four?"}],"model":"x","explain":"receipt"`
		native = `{"inputs":"Once upon a","parameters":{"max_new_tokens":4,"details":true}}`
	)
	said := regexp.MustCompile(`time|plus`)
	arguments := regexp.MustCompile(`"ar"|Paris`)
	name := regexp.MustCompile(`"name":"get_weather","(arguments|input)"`)
	for _, x := range []struct {
		path, body string
		told       *regexp.Regexp
	}{
		{"/generate", native, said},
		{"/generate_stream", native, said},
		{"/v1/completions", `{"model":"x","prompt":"Once upon a","max_tokens":4,"explain":"receipt"STREAM}`, said},
		{"/v1/chat/completions", `{` + asked + `,"max_tokens":4,"temperature":0STREAM}`, said},
		{"/v1/chat/completions", `{` + called + `,"temperature":0,"tool_choice":"required","tools":[` + tool + `]STREAM}`,
			arguments},
		{"/v1/chat/completions", `{` + called + `,"temperature":0,"tool_choice":"required","tools":[` + tool + `]STREAM}`,
			name},
		{"/v1/responses", `{"input":"What is three plus four?","max_output_tokens":4,"temperature":0,` +
			`"explain":"receipt"STREAM}`, said},
		{"/v1/responses", `{"input":"What is the weather in Paris?","temperature":0,"tool_choice":"required","tools":[{` +
			`"type":"function","name":"get_weather","parameters":` + schema + `}],"explain":"receipt"STREAM}`, arguments},
		{"/v1/messages", `{` + asked + `,"max_tokens":4,"temperature":0STREAM}`, said},
		{"/v1/messages", `{` + called + `,"max_tokens":50,"temperature":0,"tool_choice":{"type":"any"},"tools":[{` +
			`"name":"get_weather","input_schema":` + schema + `}]STREAM}`, arguments},
		{"/v1/messages", `{` + called + `,"max_tokens":50,"temperature":0,"tool_choice":{"type":"any"},"tools":[{` +
			`"name":"get_weather","input_schema":` + schema + `}]STREAM}`, name},
		{"/api/chat", `{` + asked + `,"options":{"num_predict":4,"temperature":0}STREAM}`, said},
		{"/api/chat", `{` + called + `,"options":{"temperature":0},"tool_choice":"required","tools":[` + tool + `]STREAM}`,
			arguments},
		{"/api/generate", `{"model":"x","raw":true,"prompt":"Once upon a","explain":"receipt",` +
			`"options":{"num_predict":4,"temperature":0}STREAM}`, said},
		{"/api/generate-batch", `{"prompts":[{"request_id":"a","prompt":"Once upon a"}],"explain":"receipt",` +
			`"generation_config":{"max_new_tokens":4}}`, said},
	} {
		for _, stream := range []string{`,"stream":false`, `,"stream":true`} {
			body := strings.Replace(x.body, "STREAM", stream, 1)
			if body == x.body && stream != `,"stream":false` {
				continue
			}
			status, reply := p.call(t, http.MethodPost, x.path, []byte(body))
			places := x.told.FindAllStringIndex(reply, -1)
			if status != http.StatusOK && status != http.StatusPartialContent || len(places) == 0 {
				t.Fatalf("%s %s: %d %s", x.path, body, status, reply)
			}
			for i := -1; i < len(places); i++ {
				doctored := reply
				if i >= 0 {
					at := places[i]
					doctored = reply[:at[0]+1] + "x" + reply[at[0]+2:]
					if x.told == name {
						doctored = reply[:at[0]+len(`"name":"`)] + "s" + reply[at[0]+len(`"name":"`)+1:]
					}
				}
				quoted, _ := json.Marshal(doctored)
				list, err := replay.Read("f", strings.NewReader(fmt.Sprintf(`{"request":{"path":%q,"body":%s},"reply":%s}`,
					x.path, body, quoted)))
				if err != nil {
					t.Fatal(err)
				}
				list[0].Status = status
				r, err := replay.Run(t.Context(), c, list[0], replay.Options{})
				told := strings.Contains(r.String(), "the tokens are those of the receipt, but what was kept is not what")
				if err != nil || r.Compared != "tokens" || r.Same != (i < 0) || r.Same != (len(r.Differences) == 0) ||
					told == r.Same {
					t.Errorf("%s%s, place %d: %v %s\n%s", x.path, stream, i, err, r.String(), doctored)
				}
			}
		}
	}
}
