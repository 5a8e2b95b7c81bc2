package customsampler

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tgi/examples/internal/served"
)

const question = "Tell me a story about a fox and a lantern."

const seeds = 8

// TestServed: the plugin in each language does what it should, and all draw
// the same tokens.
func TestServed(t *testing.T) {
	var first [seeds]served.Reply
	for _, language := range []string{"rust", "go", "c", "assemblyscript"} {
		t.Run(language, func(t *testing.T) {
			s := start(t, language)
			for seed, r := range stories(t, s) {
				if first[seed].Text == "" {
					first[seed] = r
				} else if !reflect.DeepEqual(r.Details.Tokens, first[seed].Details.Tokens) {
					t.Errorf("seed %d: %q, and in Rust %q", seed, r.Text, first[seed].Text)
				}
			}
			greedy(t, s)
			refused(t, s)
			s.Documented(t, "README.md")
		})
	}
}

// start serves with the plugin of one language in the place of the one in Rust.
func start(t *testing.T, language string) *served.Server {
	files := map[string]string{"tgi.toml": "tgi.toml"}
	const place = "rust/top-n-sigma.wasm"
	if language != "go" {
		files[place] = language + "/top-n-sigma.wasm"
	}
	folder := served.Folder(t, files)
	if language == "go" {
		served.GoPlugin(t, filepath.Join(folder, filepath.FromSlash(place)), "go")
	}
	return served.Start(t, folder)
}

func stories(t *testing.T, s *served.Server) (replies [seeds]served.Reply) {
	texts := map[string]bool{}
	for seed := range replies {
		r := s.Ask(t, question, fmt.Sprintf(`{"do_sample":true,"temperature":2.0,"seed":%d,"max_new_tokens":40,"details":true,
			"plugins":[{"name":"top-n-sigma","params":{"n":1.5}}]}`, seed))
		if r.Status != http.StatusOK || len(r.Details.Tokens) == 0 {
			t.Fatalf("status %d, %s", r.Status, r.Error)
		}
		replies[seed] = r
		texts[r.Text] = true
	}
	if len(texts) < seeds/2 {
		t.Errorf("%d seeds gave %d texts", seeds, len(texts))
	}
	return replies
}

// greedy: with almost no deviation allowed the likeliest token is taken,
// however hot the request is.
func greedy(t *testing.T, s *served.Server) {
	want := s.Ask(t, question, `{"max_new_tokens":40}`).Text
	const hot = `"do_sample":true,"temperature":5.0,"seed":1,"max_new_tokens":40`
	if r := s.Ask(t, question, `{`+hot+`,"plugins":[{"name":"top-n-sigma","params":{"n":1e-4}}]}`); r.Text != want {
		t.Errorf("%q, want %q", r.Text, want)
	}
	if r := s.Ask(t, question, `{`+hot+`}`); r.Text == want || r.Text == "" {
		t.Errorf("without the plugin, at temperature 5: %q", r.Text)
	}
}

func refused(t *testing.T, s *served.Server) {
	r := s.Ask(t, question, `{"plugins":[{"name":"top-n-sigma","params":{"n":0}}]}`)
	if r.Status != http.StatusUnprocessableEntity || r.ErrorType != "validation" ||
		!strings.HasSuffix(r.Error, "n is 0, and has to be above 0") { // the schema says so
		t.Errorf("n of 0: %+v", r)
	}
}
