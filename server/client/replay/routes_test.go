package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

// TestRoutes: a file cannot have anything sent but what generates a text.
func TestRoutes(t *testing.T) {
	c, asked := answering(t, http.StatusOK, `{"generated_text": "b"}`)
	for _, route := range [][2]string{
		{"POST", "/admin/reload"}, {"DELETE", "/generate"}, {"post", "/generate"}, {"GET", "/v1/responses/resp_1"},
		{"POST", "@127.0.0.1:1/generate"}, {"POST", "//127.0.0.1:1/generate"},
		{"POST", "http://127.0.0.1:1/generate"},
		{"POST", "/generate/"}, {"POST", "/generate#"}, {"POST", "/%67enerate"}, {"POST", "/generate/../admin/reload"},
		{"POST", "generate"}, {"DELETE", "/v1/models/m"}, {"POST", "/v1/batches"}, {"POST", "/api/pull"}, {"PUT", "/"},
		{"POST", "/generate\x1b"}, {"POST", " /generate"}, {"GET", "/"},
		{"POST", "/v2/models/m/versions/1/load"}, {"POST", "/v2/models/m/infer"},
		{"GET", "/v2/models/m/versions/1/infer"}, {"POST", "/v2/models/%2e%2e/versions/1/infer"},
		{"POST", "/v2/repository/models/m/versions/1/infer"}, {"POST", "/v2/models/m/versions/1/infer/"},
	} {
		file, _ := json.Marshal(File{Request: Request{Method: route[0], Path: route[1], Body: json.RawMessage(`{}`)},
			Reply: json.RawMessage(`{"generated_text": "b"}`)})
		list, err := Read("f", strings.NewReader(string(file)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), c, list[0], Options{})
		want := fmt.Sprintf("%q %q is not sent", route[0], route[1])
		if err != nil || *asked != "" || r.Same || !strings.HasPrefix(r.Error, want) {
			t.Errorf("%q: %v, asked %q, says %s", route, err, *asked, r.Error)
		}
	}
	for _, path := range []string{"/generate?a=b", "/v1/messages", "/v1/responses", "/",
		"/v2/models/org/m-1.5/versions/2/infer"} {
		*asked = ""
		e := Exchange{Method: http.MethodPost, Path: path, Body: []byte(`{}`), Reply: []byte(`{"generated_text": "b"}`)}
		if r, err := Run(t.Context(), c, e, Options{}); err != nil || !r.Same || !strings.HasPrefix(*asked, path+" ") {
			t.Errorf("%s: %v %+v, asked %s", path, err, r, *asked)
		}
	}
}

// TestHarmless: what is sent loads, unloads and continues nothing, also where bodies are to be sent as they are.
func TestHarmless(t *testing.T) {
	c, asked := answering(t, http.StatusOK, `{"response": "b"}`)
	for _, unchanged := range []bool{false, true} {
		for path, body := range map[string]string{"/api/generate": `{"prompt": "a", "keep_alive": 0}`,
			"/api/generate-one":   `{"prompt": "a", "request_id": "mine"}`,
			"/api/generate-batch": `{"prompts": [{"prompt": "a", "request_id": "mine"}]}`} {
			*asked = ""
			e := Exchange{Method: http.MethodPost, Path: path, Body: []byte(body), Reply: []byte(`{"response": "b"}`)}
			r, err := Run(t.Context(), c, e, Options{Unchanged: unchanged})
			if err != nil || !r.Same || strings.Contains(*asked, "keep_alive") || strings.Contains(*asked, "mine") ||
				!strings.Contains(*asked, `"prompt":"a"`) {
				t.Errorf("%s: %v %+v, asked %s", path, err, r, *asked)
			}
		}
	}
}

// TestRefusedAgain: what was refused for an id that is none, or comes twice, is sent with it again; what was refused
// for what replay changes is not compared.
func TestRefusedAgain(t *testing.T) {
	ids := regexp.MustCompile(`replay-[A-Z2-7]+`)
	for _, x := range []struct {
		path, body, reply string
		sent, why         string
	}{
		{"/api/generate-one", `{"prompt":"a"}`, "Invalid Data Format", `{"prompt":"a"}`, ""},
		{"/api/generate-one", `{"prompt":"a","request_id":null}`, "no", `{"prompt":"a","request_id":null}`, ""},
		{"/api/generate-one", `{"prompt":"a","request_id":7}`, "no", `{"prompt":"a","request_id":7}`, ""},
		{"/api/generate-one", `{"prompt":"a","request_id":""}`, "no", `{"prompt":"a","request_id":""}`, ""},
		{"/api/generate-batch", `{"prompts":[{"prompt":"a","request_id":"r"},{"prompt":"b","request_id":"r"}]}`,
			"Duplicate request_ids",
			`{"prompts":[{"prompt":"a","request_id":"ID"},{"prompt":"b","request_id":"ID"}]}`, ""},
		{"/api/generate-one", `{"prompt":"a","request_id":"r"}`, "request_id `r` is in use", "",
			"it was refused for its request_id, which replay changes: 400 Bad Request: request_id `r` is in use"},
		{"/api/chat", `{"keep_alive":"x"}`, `{"error":"keep_alive: want a time"}`, "",
			"it was refused for its keep_alive, which replay leaves out: 400 Bad Request: keep_alive: want a time"},
	} {
		c, asked := answering(t, http.StatusBadRequest, x.reply)
		e := Exchange{Method: http.MethodPost, Path: x.path, Body: []byte(x.body), Status: 400, Reply: []byte(x.reply)}
		r, err := Run(t.Context(), c, e, Options{})
		_, sent, _ := strings.Cut(*asked, "  ")
		one := ids.FindString(sent)
		if one != "" {
			sent = strings.ReplaceAll(sent, one, "ID")
		}
		if err != nil || sent != x.sent || r.Error != x.why || r.Same != (x.why == "") || r.Incomparable == r.Same {
			t.Errorf("%s: %v, %+v, sent %s", x.body, err, r, *asked)
		}
	}
}

// TestNothingSteers: no string of a report has a terminal do something, or makes a line.
func TestNothingSteers(t *testing.T) {
	const bad = "x\x1b]0;t\a\u009b2J\r\n\u202ey\u2028z\u200f\x7f\U000e0041"
	fields := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			fields++
			v.SetString(bad)
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		}
	}
	for _, failed := range []bool{true, false} {
		var r Report
		fill(reflect.ValueOf(&r).Elem())
		if !failed {
			r.Error, r.Same = "", true
		}
		text := r.String()
		if n := strings.Count(text, "\n"); n != 4 { // what became of it, two differences, a note
			t.Errorf("%d lines: %q", n, text)
		}
		if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 {
			t.Errorf("byte %d of %q", at, text)
		}
	}
	if fields /= 2; fields < 7 {
		t.Errorf("%d fields", fields)
	}
}

// TestLongStream: each event of a stream copies its own bytes, not all before.
func TestLongStream(t *testing.T) {
	const events = 20_000
	reply := []byte(strings.Repeat("data: {\"token\":{\"text\":\"abcdefgh\"}}\n\n", events))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := outcomeOf(reply)
	runtime.ReadMemStats(&after)
	if said := o.said[place{kind: text}]; len(said) != 8*events {
		t.Fatalf("%d bytes", len(said))
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 300<<20 { // 1.6 GB where all is copied
		t.Errorf("allocates %d bytes", n)
	}
}
