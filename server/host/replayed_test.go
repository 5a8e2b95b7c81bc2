package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/server/client/call"
	"tgi/server/client/replay"
	"tgi/server/config"
)

// TestRepliesAreReplayed: what was drawn without a seed is drawn again from its receipt, on each route, streamed and
// not, and explanations are told where they are asked for.
func TestRepliesAreReplayed(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Limits.MaxBestOf, c.Server.Ollama = 3, true })
	c, err := call.New(p.url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		path, body string
		explained  bool
	}{
		{"/generate", `{"inputs":"Once upon a time","parameters":{"do_sample":true,"details":true,"best_of":3,` +
			`"max_new_tokens":12}}`, false},
		{"/generate", `{"inputs":"Once upon a time","parameters":{"do_sample":true,"explain":"receipt",` +
			`"max_new_tokens":12}}`, false},
		{"/v1/chat/completions", `{"model":"x","max_tokens":12,"explain":"receipt",` + story + `}`, false},
		{"/v1/messages", `{"model":"x","max_tokens":12,"explain":true,` + story + `}`, true},
		{"/v1/responses", `{"model":"x","max_output_tokens":12,"explain":"receipt","input":"Tell me a story."}`, false},
		{"/api/chat", `{"model":"x","options":{"num_predict":12},"explain":true,"keep_alive":60,` + story + `}`, true},
		{"/api/chat", `{"model":"x","stream":false,"options":{"num_predict":12},"explain":"receipt",` + story + `}`, false},
		{"/api/generate", `{"model":"x","options":{"num_predict":12},"explain":"receipt",` +
			`"prompt":"Tell me a story."}`, false},
		{"/api/generate", `{"model":"x","raw":true,"stream":false,"options":{"num_predict":12,"seed":-1},"explain":true,` +
			`"prompt":"Once upon a time"}`, true},
		{"/api/generate-batch", `{"prompts":[{"request_id":"a","prompt":"Once upon a time"},{"request_id":"b","prompt":` +
			`"The fox"}],"explain":true,"generation_config":{"do_sample":true,"max_new_tokens":12}}`, true},
		{"/api/generate-one", `{"request_id":"c","prompt":"Once upon a time","seed":7,"generation_config":{` +
			`"do_sample":true,"max_new_tokens":12}}`, false},
		{"/vertex", `{"instances":[{"inputs":"Once upon a time","parameters":{"seed":7,"max_new_tokens":12}}]}`, false},
		{"/v2/models/x/versions/1/infer", `{"id":"1","inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":[79,110]},` +
			`{"name":"b","shape":[1],"datatype":"BYTES","data":[84]}],"outputs":[{"name":"a"},{"name":"b"}],` +
			`"parameters":{"do_sample":true,"seed":7,"max_new_tokens":12}}`, false},
	} {
		status, reply := p.call(t, http.MethodPost, x.path, []byte(x.body))
		if status != http.StatusOK && status != http.StatusPartialContent {
			t.Fatalf("%d, %s: %d %s", i, x.path, status, reply)
		}
		plain := slices.Contains([]string{"/api/generate-one", "/vertex", "/v2/models/x/versions/1/infer"}, x.path)
		if has := strings.Contains(reply, `"candidates":`); has != x.explained {
			t.Errorf("%d, %s: explained %v, want %v: %s", i, x.path, has, x.explained, reply)
		}
		quoted, _ := json.Marshal(reply)
		list, err := replay.Read("f", strings.NewReader(fmt.Sprintf(`{"request":{"path":%q,"body":%s},"reply":%s}`, x.path,
			x.body, quoted)))
		if err != nil {
			t.Fatal(err)
		}
		list[0].Status = status
		for range 2 {
			r, err := replay.Run(t.Context(), c, list[0], replay.Options{})
			if err != nil || !r.Same || len(r.Differences) > 0 || len(r.Notes) > 0 || r.Compared == "tokens" == plain {
				t.Errorf("%d, %s: %v %+v\n%s", i, x.path, err, r, reply)
			}
		}
	}
}

// TestBestOfSeed: it is for competing sequences alone, which take no other.
func TestBestOfSeed(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Limits.MaxBestOf = 3 })
	for body, want := range map[string]string{
		`{"inputs":"a","parameters":{"best_of_seed":1}}`:                                       "`best_of` > 1",
		`{"inputs":"a","parameters":{"best_of":2,"do_sample":true,"seed":1,"best_of_seed":1}}`: "`seed` must not",
	} {
		if status, reply := p.call(t, http.MethodPost, "/generate", []byte(body)); status != 422 ||
			!strings.Contains(reply, want) {
			t.Errorf("%s: %d %s", body, status, reply)
		}
	}
}

// TestReceiptInATrailer: a reply that is plain text tells its receipt in a trailer, where it was asked for, and
// explains nothing more.
func TestReceiptInATrailer(t *testing.T) {
	p := openChat(t, nil)
	ask := func(explain string) (*http.Response, string) {
		return keyed(t, p.url, "/api/generate-one", "", `{"request_id":"a","prompt":"Once upon a time"`+explain+
			`,"generation_config":{"max_new_tokens":3}}`)
	}
	res, text := ask(`,"explain":"receipt"`)
	var r struct{ Outputs []struct{ Tokens int } }
	if err := json.Unmarshal([]byte(res.Trailer.Get("X-Receipt")), &r); err != nil || len(r.Outputs) != 1 ||
		r.Outputs[0].Tokens != 3 {
		t.Errorf("%v %v: %q", err, res.Trailer, text)
	}
	if res, text = ask(""); res.StatusCode != 200 || res.Trailer.Get("X-Receipt") != "" {
		t.Errorf("%d %v: %s", res.StatusCode, res.Trailer, text)
	}
	for body, want := range map[string]string{`,"explain":true`: "plain text", `,"explain":7`: "must be true",
		`,"seed":"a"`: "an integer"} {
		if res, text = ask(body); res.StatusCode != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
	res, text = keyed(t, p.url, "/api/generate-batch", "", `{"prompts":[{"request_id":"a","prompt":"a"},`+
		`{"request_id":"b","prompt":"b"}],"explain":{"tokens":1025}}`)
	if res.StatusCode != 400 || !strings.Contains(text, "must be <= 2048. Given: 1025 of 2 texts") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// saidIn is the text of a reply of one of the conversations' APIs.
func saidIn(t *testing.T, reply string) string {
	t.Helper()
	var r struct {
		Choices []struct {
			Message struct{ Content string }
			Text    string
		}
		Content []struct{ Text string }
		Output  []struct{ Content []struct{ Text string } }
		Message struct{ Content string }
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil {
		t.Fatalf("%v: %s", err, reply)
	}
	text := r.Message.Content
	for _, c := range r.Choices {
		text += c.Message.Content + c.Text
	}
	for _, c := range r.Content {
		text += c.Text
	}
	for _, o := range r.Output {
		for _, c := range o.Content {
			text += c.Text
		}
	}
	return text
}

// TestGuidanceOnEveryRoute: a second conversation steers a reply in the same way whatever API it comes from.
func TestGuidanceOnEveryRoute(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Server.Ollama = true })
	const system, user = "Your name is Ann.", "Who are you?"
	routes := []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"x","max_tokens":16,"temperature":0,"messages":[{"role":"system","content":%q},` +
			`{"role":"user","content":%q}]%s}`},
		{"/v1/responses", `{"model":"x","max_output_tokens":16,"temperature":0,"instructions":%q,"input":%q%s}`},
		{"/v1/messages", `{"model":"x","max_tokens":16,"temperature":0,"system":%q,"messages":[{"role":"user",` +
			`"content":%q}]%s}`},
		{"/api/chat", `{"model":"x","stream":false,"options":{"num_predict":16,"temperature":0},"messages":[` +
			`{"role":"system","content":%q},{"role":"user","content":%q}]%s}`},
	}
	texts := map[string][]string{}
	for _, more := range []string{"", `,"guidance_scale":4,"negative_prompt":""`,
		`,"guidance_scale":4,"negative_messages":[{"role":"user","content":"Who are you?"}]`,
		`,"contrastive":{"messages":[{"role":"user","content":"Tell me a story about a fox."}],"beta":3}`} {
		for _, r := range routes {
			status, reply := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, system, user, more))
			if status != http.StatusOK {
				t.Fatalf("%s%s: %d %s", r.path, more, status, reply)
			}
			texts[more] = append(texts[more], saidIn(t, reply))
		}
		for i, text := range texts[more] {
			if text != texts[more][0] || text == "" {
				t.Errorf("%s: %s says %q, %s %q", more, routes[i].path, text, routes[0].path, texts[more][0])
			}
		}
	}
	if a, b := texts[`,"guidance_scale":4,"negative_prompt":""`][0],
		texts[`,"guidance_scale":4,"negative_messages":[{"role":"user","content":"Who are you?"}]`][0]; a != b ||
		a == texts[""][0] {
		t.Errorf("no system message and the same messages: %q and %q, unguided %q", a, b, texts[""][0])
	}
	status, reply := p.call(t, http.MethodPost, "/api/generate", []byte(
		`{"model":"x","prompt":"a","guidance_scale":2,"negative_messages":[]}`))
	if n := len(p.lines(t, "tgi_guided_requests_total")); status != http.StatusOK || n != 2 {
		t.Errorf("/api/generate knows no second conversation: %d %s", status, reply)
	}
}

// count returns a number of a reply, -1 where it has none.
func count(reply, name string) int {
	m := regexp.MustCompile(`"` + name + `":(\d+)`).FindStringSubmatch(reply)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TestPredictionOnEveryRoute: a prediction changes no text, and replies tell what became of it.
func TestPredictionOnEveryRoute(t *testing.T) {
	p := openGuessing(t, config.Speculation{Kinds: []string{"prediction"}, Tokens: 7, Always: true},
		func(c *config.Config) { c.Server.Ollama = true })
	for _, x := range []struct {
		path, body string
		tells      bool
	}{
		{"/v1/completions", `{"model":"x","prompt":"Once upon a time","max_tokens":24,"temperature":0%s}`, true},
		{"/v1/chat/completions", `{"model":"x","max_tokens":24,"temperature":0,` + story + `%s}`, true},
		{"/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":24,` +
			`"temperature":0%s}`, true},
		{"/v1/messages", `{"model":"x","max_tokens":24,"temperature":0,` + story + `%s}`, true},
		{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"details":true%s}}`, true},
		{"/generate_stream", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"details":true%s}}`, true},
		{"/api/chat", `{"model":"x","options":{"num_predict":24,"temperature":0},` + story + `%s}`, false},
	} {
		_, plain := p.call(t, http.MethodPost, x.path, fmt.Appendf(nil, x.body, ""))
		text := letters(t, plain)
		before := p.counted(t, "tgi_draft_tokens_total", `source="prediction"`)
		prediction, _ := json.Marshal(map[string]string{"type": "content", "content": text})
		more := `,"prediction":` + string(prediction)
		status, reply := p.call(t, http.MethodPost, x.path, fmt.Appendf(nil, x.body, more))
		if status != http.StatusOK || letters(t, reply) != text || text == "" {
			t.Errorf("%s: %d %q, without a prediction %q", x.path, status, letters(t, reply), text)
		}
		if p.counted(t, "tgi_draft_tokens_total", `source="prediction"`) == before {
			t.Errorf("%s: nothing of the prediction was computed", x.path)
		}
		accepted, rejected := count(reply, "accepted_prediction_tokens"), count(reply, "rejected_prediction_tokens")
		if (accepted > 0 && rejected >= 0) != x.tells || count(plain, "accepted_prediction_tokens") != -1 {
			t.Errorf("%s: %d accepted, %d rejected: %s", x.path, accepted, rejected, reply)
		}
	}
}

// TestGuardsAreCounted: replies tell how many tokens guards took back and gave other text for, and nothing where they
// did neither.
func TestGuardsAreCounted(t *testing.T) {
	p := guarding(t, nil)
	const list = `"plugins":[{"name":"banned-strings","params":{"strings":["fox","lived"]}},` +
		`{"name":"redact","params":{"strings":["time","day"]}}]`
	for _, r := range spokenRoutes() {
		if r.name != "TGI" && r.name != "completions" && r.name != "responses" && r.name != "messages" {
			continue
		}
		rewound, replaced := p.counted(t, "tgi_guard_rewound_tokens_total", ""), 0
		_, reply := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, ","+list))
		rewound = p.counted(t, "tgi_guard_rewound_tokens_total", "") - rewound
		if replaced = strings.Count(reply, "[redacted]"); rewound == 0 && replaced == 0 {
			t.Errorf("%s: guards did nothing: %s", r.name, reply)
		}
		if got := max(count(reply, "rewound_tokens"), 0); got != rewound {
			t.Errorf("%s: tells of %d rewound tokens, the metric of %d: %s", r.name, got, rewound, reply)
		}
		if got := count(reply, "replaced_tokens"); (got > 0) != (replaced > 0) {
			t.Errorf("%s: tells of %d replaced tokens: %s", r.name, got, reply)
		}
		_, reply = p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, ""))
		if strings.Contains(reply, "rewound_tokens") || strings.Contains(reply, "replaced_tokens") {
			t.Errorf("%s: without guards: %s", r.name, reply)
		}
	}
}
