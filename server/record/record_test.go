package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T) Config {
	return Config{Folder: t.TempDir(), MaxFile: 1 << 20, MaxFiles: 3, MaxBody: 4096, Memory: 1 << 20}
}

func open(t *testing.T, c Config) *Recorder {
	t.Helper()
	r, err := Open(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exchange records a request and its reply, which is written in parts.
func exchange(r *Recorder, target, body, kind string, header map[string]string, parts ...string) {
	q := httptest.NewRequest("POST", target, strings.NewReader(body))
	for name, value := range header {
		q.Header.Set(name, value)
	}
	e := r.Begin(q, "id", "")
	_, _ = io.Copy(io.Discard, e.Body(q.Body))
	for _, p := range parts {
		e.Sent([]byte(p))
	}
	e.End(200, http.Header{"Content-Type": {kind}})
}

// read returns the records of all files of a folder.
func read(t *testing.T, folder string) (all []Record) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r Record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatalf("%s: %v: %s", name, err, lines.Text())
			}
			all = append(all, r)
		}
	}
	return all
}

// TestRecord: bodies and streams are kept as they were, keys are not.
func TestRecord(t *testing.T) {
	c := config(t)
	c.Headers = []string{"X-Tenant"}
	r := open(t, c)
	exchange(r, "/generate?model=m&api_key=hush", `{"b":1.0,"a":"é"}`, "application/json",
		map[string]string{"Authorization": "Bearer hush", "X-Api-Key": "hush", "X-Tenant": "hush",
			"X-Other": "seen", "Cookie": "hush"}, `{"text":`, `"x"}`)
	exchange(r, "/stream", `{"stream":true}`, "text/event-stream", nil, "data: {\"a\":1}\n\n", "data: {\"b\"",
		":2}\n\n", "data: [DONE]\n\n")
	r.Close()
	all := read(t, c.Folder)
	if len(all) != 2 {
		t.Fatalf("%d records", len(all))
	}
	one := all[0]
	if string(one.Body) != `{"b":1.0,"a":"é"}` || string(one.Reply) != `{"text":"x"}` || one.Status != 200 ||
		one.Path != "/generate" || one.Headers["X-Other"][0] != "seen" || one.ID != "id" || one.Version != Version {
		t.Errorf("got %+v", one)
	}
	text, _ := os.ReadFile(filepath.Join(c.Folder, current))
	if strings.Contains(string(text), "hush") {
		t.Errorf("a key is recorded: %s", text)
	}
	want := []string{"data: {\"a\":1}\n\n", "data: {\"b\":2}\n\n", "data: [DONE]\n\n"}
	var got []string
	last := 0.0
	for _, e := range all[1].Events {
		got = append(got, e.Text)
		if e.Seconds < last {
			t.Errorf("events left at %v", all[1].Events)
		}
		last = e.Seconds
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events %q", got)
	}
}

// TestRedact: the values of members are left out of requests, replies and streams, and nothing else changes.
func TestRedact(t *testing.T) {
	c := config(t)
	c.Fields = []string{"content", "metadata.user_id"}
	r := open(t, c)
	exchange(r, "/x", `{"messages":[{"role":"user","content":[{"text":"hush"}]}],"n":1.50,"metadata":{"user_id":"hush"},`+
		`"user_id":"seen"}`, "application/json", nil, `{"choices":[{"message":{"content":"hush","x":null}}]}`)
	exchange(r, "/x", `hush`, "text/event-stream", nil, "event: a\ndata: {\"delta\":{\"content\":\"hush\"}}\n\n",
		"data: broken hush\n\n", ": hello\n\n", "data: [DONE]\n\n")
	exchange(r, "/x", `{}`, "application/x-ndjson", nil, "{\"message\":{\"content\":\"hush\"}}\n",
		"{\"message\":{\"content\":\"hush")
	r.Close()
	text, _ := os.ReadFile(filepath.Join(c.Folder, current))
	if strings.Contains(string(text), "hush") {
		t.Errorf("a value is recorded: %s", text)
	}
	all := read(t, c.Folder)
	const want = `{"messages":[{"role":"user","content":"[redacted]"}],"n":1.50,"metadata":{"user_id":"[redacted]"},` +
		`"user_id":"seen"}`
	if string(all[0].Body) != want || !all[0].Redacted {
		t.Errorf("got %s", all[0].Body)
	}
	if got := all[1].Events[0].Text; got != "event: a\ndata: {\"delta\":{\"content\":\"[redacted]\"}}\n\n" {
		t.Errorf("got %q", got)
	}
	if got := all[2].Events; got[0].Text != "{\"message\":{\"content\":\"[redacted]\"}}\n" || got[1].Text != Gone {
		t.Errorf("got %v", got)
	}
	if got := all[1].Events[3].Text; got != "data: [DONE]\n\n" {
		t.Errorf("got %q", got)
	}
}

// TestBounds: long bodies are cut, files are turned, and what there is no memory for is counted.
func TestBounds(t *testing.T) {
	c := config(t)
	c.MaxFile = 20_000
	r := open(t, c)
	long := `"` + strings.Repeat("x", 9000) + `"`
	exchange(r, "/x", long, "application/json", nil, long[:5000], long[5000:])
	r.Close()
	if one := read(t, c.Folder)[0]; !one.Cut || !one.ReplyCut || len(one.Body) < 4096 || len(one.Body) > 4200 {
		t.Errorf("got %t %t %d", one.Cut, one.ReplyCut, len(one.Body))
	}
	r = open(t, c)
	for range 40 {
		exchange(r, "/x", long[:4000]+`"`, "application/json", nil)
	}
	r.Close()
	names, _ := filepath.Glob(filepath.Join(c.Folder, "*"))
	total := int64(0)
	for _, name := range names {
		info, _ := os.Stat(name)
		total += info.Size()
	}
	if kept, dropped := r.Counts(); len(names) != 3 || total > 60_000 || kept+dropped != 40 || r.Held() != 0 {
		t.Errorf("%d files with %d bytes, %d kept, %d dropped, %d held", len(names), total, kept, dropped, r.Held())
	}
	c.Memory = 100
	r = open(t, c)
	exchange(r, "/x", long, "application/json", nil)
	r.Close()
	exchange(r, "/x", "1", "application/json", nil) // behind the end
	if kept, dropped := r.Counts(); kept != 0 || dropped != 2 || r.Held() != 0 {
		t.Errorf("%d kept, %d dropped, %d held", kept, dropped, r.Held())
	}
}

// TestDisk: a folder that goes away loses records, and nothing else.
func TestDisk(t *testing.T) {
	c := config(t)
	c.MaxFile = 1
	r := open(t, c)
	if err := os.RemoveAll(c.Folder); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				exchange(r, "/x", "1", "application/json", nil, "2")
			}
		})
	}
	all.Wait()
	r.Close()
	if kept, dropped := r.Counts(); kept+dropped != 80 || dropped < 79 {
		t.Errorf("%d kept, %d dropped", kept, dropped)
	}
}

// FuzzHide: whatever is sent, what comes out is JSON, has no value of the field, and is otherwise equal.
func FuzzHide(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,{"secret":"x"}]}}`, `[]`, `1`, `"x"`, `{"secret":1,"secret":{"x":[]}}`,
		`[[{"a":null,"b":true}]]`, `{"a":[{},[]],"":1}`} {
		f.Add([]byte(s))
	}
	h := newHiding([]string{"secret"}, nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			_, _ = h.event(b)
			return
		}
		out, hid := h.json(b)
		if !json.Valid(out) {
			t.Fatalf("%q became %q", b, out)
		}
		var in, back any
		if json.Unmarshal(b, &in) != nil || json.Unmarshal(out, &back) != nil {
			return // numbers that no float holds
		}
		if !hid && fmt.Sprint(in) != fmt.Sprint(back) {
			t.Fatalf("%q became %q", b, out)
		}
	})
}
