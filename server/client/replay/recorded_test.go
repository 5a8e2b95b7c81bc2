package replay

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/record"
)

// TestRecorded: what a server records is read, sent again and compared; what can't be says why.
func TestRecorded(t *testing.T) {
	folder := t.TempDir()
	rec, err := record.Open(record.Config{Folder: folder, MaxFile: 1 << 20, MaxFiles: 1, MaxBody: 200, Memory: 1 << 20,
		Fields: []string{"user"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	keep := func(target, body string, status int, kind string, parts ...string) {
		q := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer hush")
		q.Header.Set("X-TGI-Dialect", "tgi-2.2")
		e := rec.Begin(q, "id", "school")
		_, _ = io.Copy(io.Discard, e.Body(q.Body))
		for _, p := range parts {
			e.Sent([]byte(p))
		}
		e.End(status, http.Header{"Content-Type": {kind}})
	}
	keep("/generate?model=m&api_key=x", `{"inputs":"a"}`, 200, "application/json", `{"generated_text":"b"}`)
	keep("/v1/chat/completions", `{"messages":[],"stream":true}`, 200, "text/event-stream",
		"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n", "data: [DONE]\n\n")
	keep("/generate", `{"inputs":"`+strings.Repeat("x", 300)+`"}`, 200, "application/json", `{}`)
	keep("/generate", `{"inputs":"a","user":"me"}`, 200, "application/json", `{"generated_text":"b"}`)
	keep("/generate", `{"inputs":3}`, 422, "application/json", `{"error":"no"}`)
	rec.Close()
	data, err := os.ReadFile(filepath.Join(folder, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := Read("requests.jsonl", strings.NewReader(string(data)))
	if err != nil || len(list) != 5 {
		t.Fatal(err, len(list))
	}
	if list[0].Key != "school" {
		t.Errorf("the key is called %q", list[0].Key)
	}
	c, asked := answering(t, 200, `{"generated_text":"b"}`)
	for i, want := range []string{"the same text", "", "not compared: its body was longer than record.max_body",
		"not compared: values of its body were left out (record.redact)", "status: was 422 Unprocessable Entity: no, is 200 OK"} {
		r, err := Run(t.Context(), c, list[i], Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.String(), want) {
			t.Errorf("%d: %s, want %s", i, r.String(), want)
		}
		if i == 0 && *asked != `/generate?model=m tgi-2.2 {"inputs":"a"}` {
			t.Errorf("asked %s", *asked)
		}
	}
	c, _ = answering(t, 200, `{"choices":[{"message":{"content":"c"}}]}`)
	r, err := Run(t.Context(), c, list[1], Options{})
	if err != nil || r.Same || !strings.Contains(r.String(), `text behind 0 bytes: was "b", is "c"`) {
		t.Errorf("a stream: %v %s", err, r.String())
	}
}
