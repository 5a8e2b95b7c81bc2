package host

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/server/config"
)

// TestNoAPIShowsWhatWasTakenBack: an operator's guards hold on every way to get a text: on all routes, streamed and
// not, in the lines of batches, in responses that run in the background, are asked for again and followed up, and in
// texts that go on where another ended. No reply has a letter that they took back or replaced.
func TestNoAPIShowsWhatWasTakenBack(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Server.Ollama = true
		c.Batches.Folder = t.TempDir()
		for name, settings := range map[string]config.Table{
			"redact":         {"strings": []any{"e"}, "ignore_case": true, "with": "#", "locked": true},
			"banned-strings": {"strings": []any{"lived", "there", "fox", "name"}, "locked": true},
		} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: "house-" + name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyAlways, Config: settings})
		}
	})
	texts := map[string]string{}
	for i, r := range guardedRoutes() {
		status, reply := p.call(t, http.MethodPost, r[0], fmt.Appendf(nil, r[1], "[]"))
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", r[0], status, reply)
		}
		texts[fmt.Sprintf("%s, %d", r[0], i)] = letters(t, reply)
	}
	for _, r := range [][3]string{
		{"compat", "/", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40}}`},
		{"compat, stream", "/", `{"inputs":"Once upon a time","stream":true,"parameters":{"max_new_tokens":40}}`},
		{"SageMaker", "/invocations", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40}}`},
		{"Vertex", "/vertex", `{"instances":[{"inputs":"Once upon a time","parameters":{"max_new_tokens":40}}]}`},
		{"KServe", "/v2/models/x/versions/1/infer", `{"id":"1","inputs":[{"name":"a","shape":[6],"datatype":"UINT8",` +
			`"data":[79,110,99,101,32,117]}],"parameters":{"max_new_tokens":40},"outputs":[{"name":"a"}]}`},
		{"generate API", "/api/generate-one", one("g", "Once upon a time", 20, "")},
		{"generate API, more of it", "/api/generate-one", `{"request_id":"g","generation_config":{"do_sample":false,` +
			`"max_new_tokens":40}}`},
		{"generate API, stream", "/api/generate-one", one("h", "Once upon a time", 40, `,"stream_response":true`)},
		{"generate API, batch", "/api/generate-batch", `{"prompts":[{"request_id":"1","prompt":"Once upon a time"}],` +
			`"generation_config":{"do_sample":false,"max_new_tokens":40}}`},
	} {
		status, reply := p.call(t, http.MethodPost, r[1], []byte(r[2]))
		if status/100 != 2 {
			t.Errorf("%s: %d %s", r[0], status, reply)
		}
		texts[r[0]] = strings.ReplaceAll(onlyOutput(t, r[0], reply), "Once upon a time", "")
	}
	ask := `"input":"Tell me a story about a fox.","max_output_tokens":60,"temperature":0`
	response := p.inBackground(t, `{"model":"x",`+ask+`,"background":true}`)
	texts["response in the background"] = letters(t, response)
	var r struct{ ID string }
	if err := json.Unmarshal([]byte(response), &r); err != nil {
		t.Fatal(err)
	}
	_, again := p.call(t, http.MethodGet, "/v1/responses/"+r.ID+"?stream=true", nil)
	texts["response, asked for again as a stream"] = letters(t, again)
	_, stream := p.call(t, http.MethodPost, "/v1/responses",
		[]byte(`{"model":"x",`+ask+`,"background":true,"stream":true}`))
	texts["response in the background, streamed"] = letters(t, stream)
	_, next := p.call(t, http.MethodPost, "/v1/responses", []byte(`{"model":"x","input":"And then?","max_output_tokens":30,`+
		`"temperature":0,"previous_response_id":"`+r.ID+`"}`))
	texts["response, followed up"] = letters(t, next)
	for endpoint, body := range map[string]string{
		"/v1/chat/completions": `{"model":"x","max_tokens":40,"temperature":0,"messages":[{"role":"user","content":"Tell me a story."}]}`,
		"/v1/completions":      `{"model":"x","max_tokens":40,"temperature":0,"prompt":"Once upon a time"}`,
		"/v1/responses":        `{"model":"x",` + ask + `}`,
	} {
		texts["batch of "+endpoint] = letters(t, p.batch(t, "", endpoint, body))
	}
	if a, b := texts["generate API, stream"], texts["compat"]; a != b {
		t.Errorf("the generate API says %q, TGI's %q", a, b)
	}
	for name, text := range texts {
		low := strings.ToLower(text)
		for _, never := range []string{"e", "liv#d", "th#r#", "fox", "nam#"} {
			if strings.Contains(low, never) {
				t.Errorf("%s: %s in %q", name, never, text)
			}
		}
		if !strings.Contains(text, "#") && name != "generate API, more of it" { // which has no such letter
			t.Errorf("%s: nothing was replaced in %q", name, text)
		}
	}
	lines := strings.Join(p.lines(t, "tgi_guard_rewound_tokens_total"), "\n")
	_, n, ok := strings.Cut(lines, `plugin="house-banned-strings"} `)
	if !ok || strings.HasPrefix(n, "0") || len(texts) < 30 {
		t.Errorf("%d texts, rewound tokens\n%s", len(texts), lines)
	}
}

// onlyOutput is the text of a reply that has other forms than letters knows.
func onlyOutput(t *testing.T, name, reply string) string {
	var v struct{ Predictions []string }
	var list []struct{ Response string }
	switch {
	case name == "Vertex" && json.Unmarshal([]byte(reply), &v) == nil && len(v.Predictions) == 1:
		return v.Predictions[0]
	case name == "KServe":
		var k struct{ Outputs []struct{ Data []int } }
		if err := json.Unmarshal([]byte(reply), &k); err != nil || len(k.Outputs) != 1 {
			t.Errorf("%s: %s", name, reply)
			return ""
		}
		var b []byte
		for _, c := range k.Outputs[0].Data {
			b = append(b, byte(c))
		}
		return string(b)
	case name == "generate API, batch" && json.Unmarshal([]byte(reply), &list) == nil && len(list) == 1:
		return list[0].Response
	case strings.HasPrefix(name, "generate API"):
		return reply
	}
	return letters(t, reply)
}

// inBackground begins a response, and returns it when it is over.
func (p *plugged) inBackground(t *testing.T, body string) string {
	t.Helper()
	_, reply := p.call(t, http.MethodPost, "/v1/responses", []byte(body))
	var r struct{ ID, Status string }
	for {
		if err := json.Unmarshal([]byte(reply), &r); err != nil || r.ID == "" {
			t.Fatalf("%v: %s", err, reply)
		}
		if r.Status != "queued" && r.Status != "in_progress" {
			return reply
		}
		time.Sleep(10 * time.Millisecond)
		_, reply = p.call(t, http.MethodGet, "/v1/responses/"+r.ID, nil)
	}
}

// batch runs a batch of one line with a key, and returns its output, or its errors where it has none.
func (p *plugged) batch(t *testing.T, key, endpoint, body string) string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("purpose", "batch")
	part := sure(w.CreateFormFile("file", "in.jsonl"))
	fmt.Fprintf(part, `{"custom_id":"1","method":"POST","url":%q,"body":%s}`+"\n", endpoint, body)
	w.Close()
	_, file := p.withKey(t, key, http.MethodPost, "/v1/files", form.String(), "Content-Type", w.FormDataContentType())
	var v struct {
		ID, Status string
		Output     string `json:"output_file_id"`
		Errors     string `json:"error_file_id"`
	}
	read := func(text string) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.ID == "" {
			t.Fatalf("%v: %s", err, text)
		}
	}
	read(file)
	_, text := p.withKey(t, key, http.MethodPost, "/v1/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, v.ID, endpoint))
	for read(text); v.Status != "completed"; read(text) {
		if v.Status == "failed" || v.Status == "expired" {
			t.Fatal(text)
		}
		time.Sleep(50 * time.Millisecond)
		_, text = p.withKey(t, key, http.MethodGet, "/v1/batches/"+v.ID, "")
	}
	_, text = p.withKey(t, key, http.MethodGet, "/v1/files/"+cmp.Or(v.Output, v.Errors)+"/content", "")
	return text
}

// withKey does a request with a key, "" for none, and with headers. As clients do, it asks again later while the server
// says when: beside many others, those who poll are held to their part of the processors.
func (p *plugged) withKey(t *testing.T, key, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	for {
		req := sure(http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body)))
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res := sure(http.DefaultClient.Do(req))
		reply := string(sure(io.ReadAll(res.Body)))
		res.Body.Close()
		later, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != http.StatusTooManyRequests || err != nil {
			return res.StatusCode, reply
		}
		time.Sleep(time.Duration(later) * time.Second)
	}
}
