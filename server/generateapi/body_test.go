package generateapi

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"unicode/utf8"

	"tgi/server/config"
)

// TestGenerateAPIASCII: strings are written as Python's json.dumps writes them.
func TestGenerateAPIASCII(t *testing.T) {
	for s, want := range map[string]string{
		"":               `""`,
		"a\"\\/\n\t\x01": `"a\"\\/\n\t\u0001"`,
		"é\x7f…":         `"\u00e9\u007f\u2026"`,
		"😀":              `"\ud83d\ude00"`,
		"\xff":           `"\ufffd"`,
	} {
		if got := string(appendASCII([]byte("x"), s)); got != "x"+want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	if got := string((&pythonList{}).end()); got != "[]" {
		t.Errorf("an empty list is %s", got)
	}
}

// FuzzGenerateAPIBody: every body is a request within its bounds or one of the
// texts of the original.
func FuzzGenerateAPIBody(f *testing.F) {
	for _, s := range []string{
		`{"request_id":"a","prompt":"p","only_new_tokens":false,"stream_response":false,"generation_config":{"num_beams":1,"do_sample":true,"temperature":1,"top_p":0.5,"top_k":50,"max_new_tokens":9,"repetition_penalty":1,"length_penalty":1}}`,
		`{"prompts":[{"request_id":"a","prompt":"p"},{"request_id":"b"}],"generation_config":{"top_k":-0,"temperature":1e999}}`,
		`{"prompts":[{}]}`, `[`, `{"request_id":"\ud800"}`, `{"request_id":"a","generation_config":[]}`, `{"request_id":"a","generation_config": { } }`, `null`, `{"a":` + "\xff}",
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
				if r == errJSON && json.Valid(body) && utf8.Valid(body) && !slices.Contains(body, '\\') && len(body) < 100 && !slices.ContainsFunc(body, func(c byte) bool { return c >= '0' && c <= '9' }) {
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
			if s.beams < 1 || s.beams > maxBeams || *d.MaxNewTokens < 1 || *d.MaxNewTokens > 100 || s.maxNewTokens < 1 {
				t.Fatalf("%q: %+v", body, s)
			}
			if d.Temperature != nil && !(*d.Temperature > 0 && *d.Temperature <= math.MaxFloat32) || d.TopK != nil && *d.TopK < 1 || d.TopP != nil && !(*d.TopP > 0 && *d.TopP < 1) {
				t.Fatalf("%q: %+v", body, d)
			}
		}
	})
}
