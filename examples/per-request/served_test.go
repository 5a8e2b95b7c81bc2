package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/examples/internal/served"
)

func TestServed(t *testing.T) {
	folder := served.Folder(t, map[string]string{"tgi.toml": "tgi.toml"})
	served.GoPlugin(t, filepath.Join(folder, "plugins", "choice.wasm"), ".")
	s := served.Start(t, folder)

	const question = "What pet does Tomas have?"
	for answers, want := range map[string]string{
		`"a cat","a dog","a horse"`:               "a dog",
		`"Tomas has a cat.","Tomas has a dog."`:   "Tomas has a dog.",
		`"Barley","Barley the dog","Pip the cat"`: "Barley",
	} {
		if r := s.Ask(t, question, choose(answers)); r.Text != want {
			t.Errorf("of %s: %+v, want %s", answers, r, want)
		}
	}
	if r := s.Ask(t, question, `{}`); r.Text != "Tomas has a brown dog called Barley." {
		t.Errorf("without the plugin: %+v", r)
	}
	t.Run("side by side", func(t *testing.T) { sideBySide(t, s) })
	r := s.Ask(t, question, choose(``))
	if r.Status != http.StatusUnprocessableEntity ||
		!strings.HasSuffix(r.Error, "answers is [], with 0 elements, the least is 1") {
		t.Errorf("no answers: %+v", r)
	}
	s.Documented(t, "README.md")
}

func choose(answers string) string {
	return `{"plugins":[{"name":"choice","params":{"answers":[` + answers + `]}}]}`
}

// sideBySide: each of many hot requests answers with one of its own strings.
func sideBySide(t *testing.T, s *served.Server) {
	questions := []struct{ question, answers string }{
		{"Who are you?", `"a fox","a lantern"`},
		{"What is 7 times 8?", `"fifty-six","56","ä 😀"`},
		{"Where does Mira live?", `"In Pebblewick.","On Ostrel.","\"Nowhere\""`},
	}
	want := [][]string{{"a fox", "a lantern"}, {"fifty-six", "56", "ä 😀"}, {"In Pebblewick.", "On Ostrel.",
		`"Nowhere"`}}
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			q := questions[i%3]
			r := s.Ask(t, q.question, fmt.Sprintf(`{"do_sample":true,"temperature":8.0,"seed":%d,%s`, i+1,
				choose(q.answers)[1:]))
			if !slices.Contains(want[i%3], r.Text) {
				t.Errorf("%s: %+v, want one of %q", q.question, r, want[i%3])
			}
		})
	}
	wg.Wait()
}
