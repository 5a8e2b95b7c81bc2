package generateapi

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/server/config"
	"tgi/server/generate"
)

// TestGenerateAPIStrings: strings are written as Python's json.dumps writes them,
// which wrote testdata/strings.tsv by make_strings.py.
func TestGenerateAPIStrings(t *testing.T) {
	golden, err := os.ReadFile("testdata/strings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		digits, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		text, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendASCII([]byte("x"), string(text))); got != "x"+want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := string(appendASCII(nil, "a\xffb")); got != `"a\ufffdb"` {
		t.Errorf("a text that is not UTF-8 is %s", got)
	}
	if got := string((&pythonList{}).end()); got != "[]" {
		t.Errorf("an empty list is %s", got)
	}
}

// TestGenerateAPIBodies: bodies are taken and refused as llm-inference does, whose
// validators wrote testdata/bodies.tsv by make_bodies.py. Where they crash, and
// where Python takes true and false for integers, the format is invalid.
func TestGenerateAPIBodies(t *testing.T) {
	golden, err := os.ReadFile("testdata/bodies.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var body string
		if err := json.Unmarshal([]byte(parts[1]), &body); err != nil || len(parts) != 3 {
			t.Fatal(line, err)
		}
		read := func() (*request, error) { return readOne([]byte(body)) }
		if parts[0] == "batch" {
			read = func() (*request, error) { return readBatch([]byte(body), 10) }
		}
		want := parts[2]
		if want == "crash" || truthsForNumbers.MatchString(body) {
			want = errShape.text
		}
		got := "ok"
		if _, err := read(); err != nil {
			got = explain(err).Text
		}
		if got != want {
			t.Errorf("%s %s: %s, want %s", parts[0], body, got, want)
		}
	}
}

var truthsForNumbers = regexp.MustCompile(`"(num_beams|max_new_tokens|top_k|temperature|top_p|repetition_penalty|length_penalty)":(true|false)`)

// FuzzGenerateAPIBody: every body is a request within its bounds or one of the
// texts of the original.
func FuzzGenerateAPIBody(f *testing.F) {
	for _, s := range []string{
		`{"request_id":"a","prompt":"p","only_new_tokens":false,"stream_response":false,"generation_config":{"num_beams":1,"do_sample":true,"temperature":1,"top_p":0.5,"top_k":50,"max_new_tokens":9,"repetition_penalty":1,"length_penalty":1}}`,
		`{"prompts":[{"request_id":"a","prompt":"p"},{"request_id":"b"}],"generation_config":{"top_k":-0,"temperature":1e999}}`,
		`{"prompts":[{}]}`, `[`, `{"request_id":"\ud800"}`, `{"request_id":"a","generation_config":[]}`,
		`{"request_id":"a","generation_config": { } }`, `null`, `{"a":` + "\xff}",
		`{"prompts":[{"request_id":"a"},{"request_id":"a"}]}`, `{"request_id":"a","request_id":1}`,
	} {
		f.Add([]byte(s))
	}
	defaults := config.Default().GenerateAPI
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func() (*request, error){
			func() (*request, error) { return readOne(body) },
			func() (*request, error) { return readBatch(body, 3) },
		} {
			q, err := read()
			if err != nil {
				var r *refusal
				if !errors.As(err, &r) || r.status != 400 {
					t.Fatalf("%q: %v", body, err)
				}
				if r == errJSON && json.Valid(body) && utf8.Valid(body) && !slices.Contains(body, '\\') &&
					len(body) < 100 && !slices.ContainsFunc(body, func(c byte) bool { return c >= '0' && c <= '9' }) {
					t.Fatalf("%q is JSON", body)
				}
				continue
			}
			if len(q.ids) == 0 || len(q.ids) > 3 || len(q.prompts) != len(q.ids) || slices.Contains(q.ids, "") {
				t.Fatalf("%q: %+v", body, q)
			}
			s, err := resolve(&q.settings, &defaults)
			if err != nil {
				continue
			}
			d := s.draft([]uint32{1}, 100)
			if s.beams < 1 || s.beams > generate.MaxBeams || *d.MaxNewTokens < 1 || *d.MaxNewTokens > 100 ||
				s.maxNewTokens < 1 {
				t.Fatalf("%q: %+v", body, s)
			}
			if d.Temperature != nil && !(*d.Temperature > 0 && *d.Temperature <= math.MaxFloat32) || d.TopK != nil &&
				*d.TopK < 1 || d.TopP != nil && !(*d.TopP > 0 && *d.TopP < 1) {
				t.Fatalf("%q: %+v", body, d)
			}
		}
	})
}
