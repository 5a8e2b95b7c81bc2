package customsampler

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"testing"

	"tgi/examples/internal/served"
)

func TestMain(m *testing.M) { served.Main(m) }

var languages = []string{"go", "rust", "c", "as"}

const question = "Tell me a story about a fox and a lantern."

func TestServed(t *testing.T) {
	files := map[string]string{"tgi.toml": "tgi.toml"}
	for _, language := range []string{"rust", "c", "assemblyscript"} {
		files[language+"/top-n-sigma.wasm"] = language + "/top-n-sigma.wasm"
	}
	folder := served.Folder(t, files)
	served.GoPlugin(t, filepath.Join(folder, "go", "top-n-sigma.wasm"), "go")
	s := served.Start(t, folder)

	t.Run("same tokens in each language", func(t *testing.T) { sameTokens(t, s) })
	t.Run("hardly any deviation is greedy", func(t *testing.T) { greedy(t, s) })
	t.Run("bad parameters", func(t *testing.T) { refused(t, s) })
	t.Run("README", func(t *testing.T) { s.Documented(t, "README.md") })
}

// sameTokens: the four draw the same tokens for the same seed, and others for another.
func sameTokens(t *testing.T, s *served.Server) {
	texts := map[string]bool{}
	for seed := range 8 {
		var first served.Reply
		for i, language := range languages {
			r := s.Ask(t, question, fmt.Sprintf(`{"do_sample":true,"temperature":2.0,"seed":%d,"max_new_tokens":40,"details":true,
				"plugins":[{"name":"top-n-sigma-%s","params":{"n":1.5}}]}`, seed+1, language))
			if r.Status != http.StatusOK || len(r.Details.Tokens) == 0 {
				t.Fatalf("%s: status %d, %s", language, r.Status, r.Error)
			}
			if i == 0 {
				first = r
				texts[r.Text] = true
			} else if !reflect.DeepEqual(r.Details.Tokens, first.Details.Tokens) {
				t.Errorf("seed %d, %s: %q\nbut %s: %q", seed+1, language, r.Text, languages[0], first.Text)
			}
		}
	}
	if len(texts) < 2 {
		t.Errorf("8 seeds gave %d texts", len(texts))
	}
}

// greedy: with almost no deviation allowed the likeliest token is taken,
// however hot the request is.
func greedy(t *testing.T, s *served.Server) {
	want := s.Ask(t, question, `{"max_new_tokens":40}`).Text
	const hot = `"do_sample":true,"temperature":5.0,"seed":1,"max_new_tokens":40`
	for _, language := range languages {
		r := s.Ask(t, question, `{`+hot+`,"plugins":[{"name":"top-n-sigma-`+language+`","params":{"n":1e-4}}]}`)
		if r.Text != want {
			t.Errorf("%s: %q, want %q", language, r.Text, want)
		}
	}
	if r := s.Ask(t, question, `{`+hot+`}`); r.Text == want || r.Text == "" {
		t.Errorf("without the plugin, at temperature 5: %q", r.Text)
	}
}

func refused(t *testing.T, s *served.Server) {
	for _, language := range languages {
		name := "top-n-sigma-" + language
		r := s.Ask(t, question, `{"plugins":[{"name":"`+name+`","params":{"n":0}}]}`)
		want := "Input validation error: plugin `" + name + "`: n: want a number above 0, at most 100"
		if r.Status != http.StatusUnprocessableEntity || r.Error != want || r.ErrorType != "validation" {
			t.Errorf("%s: %+v, want %s", language, r, want)
		}
	}
}
