package knownphrases

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"tgi/examples/internal/served"
)

// TestServed: guesses that are right, and others, change no text; those that are right are kept.
func TestServed(t *testing.T) {
	s := served.Start(t, ".")
	s.Documented(t, "README.md")
	const question = "Tell me a story about a fox."
	want := s.Ask(t, question, `{"max_new_tokens":40}`)
	for _, plugin := range []string{"known-phrases", "known-phrases-as", "known-phrases-rust"} {
		t.Run(plugin, func(t *testing.T) { guesses(t, s, plugin, question, want.Text) })
	}
	t.Run("go", func(t *testing.T) { // in the place of the one in C
		files := map[string]string{}
		for _, f := range []string{"tgi.toml", "assemblyscript/known-phrases.wasm", "rust/known-phrases.wasm"} {
			files[f] = f
		}
		folder := served.Folder(t, files)
		served.GoPlugin(t, filepath.Join(folder, "c", "known-phrases.wasm"), "go")
		s := served.Start(t, folder)
		s.Documented(t, "README.md")
		guesses(t, s, "known-phrases", question, want.Text)
	})
}

// guesses tries a plugin with phrases that are right and others, on a question whose answer is want.
func guesses(t *testing.T, s *served.Server, plugin, question, want string) {
	wrong := guessed(t, s, "false")
	for name, phrases := range map[string]string{
		"right": strconv.Quote(want), "wrong": `"Once upon a time there was no fox at all."`,
		"many": strconv.Quote(want) + `,"a fox","","Once upon a time, a fox"`,
	} {
		before := guessed(t, s, "true")
		got := s.Ask(t, question,
			`{"max_new_tokens":40,"plugins":[{"name":"`+plugin+`","params":{"phrases":[`+phrases+`]}}]}`)
		if got.Status != http.StatusOK || got.Text != want {
			t.Errorf("%s: %+v, want %q", name, got, want)
		}
		if n := guessed(t, s, "true") - before; name != "wrong" && n < 20 {
			t.Errorf("%s: %d guesses were right", name, n)
		}
	}
	if guessed(t, s, "false") == wrong {
		t.Error("no guess was wrong")
	}
	if r := s.Ask(t, question, `{"plugins":[{"name":"`+plugin+`","params":{"phrase":[]}}]}`); r.Status != 422 {
		t.Errorf("%+v", r)
	}
}

// guessed returns how many guesses of drafts steps computed that were right, or not.
func guessed(t *testing.T, s *served.Server, right string) int {
	t.Helper()
	res, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`tgi_draft_tokens_total\{accepted="` + right + `",source="draft"\} (\d+)`)
	m := line.FindSubmatch(text)
	if m == nil {
		t.Fatal("/metrics has no guesses of drafts")
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
