package tryout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/testcache"
)

// TestRun feeds built-in modules of every kind and looks for what they have to answer.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		params, prompt, text, source, want string
	}{
		"no-repeat-ngram":    {`{"n":2}`, "ABA", "", "", "1 of "},
		"xtc":                {`{}`, "A", "", "", "tokens forbidden"},
		"mirostat":           {`{}`, "A", "", "", "chose candidate"},
		"redact":             {`{"strings":["CAT"]}`, "A", "a CAT b", "", `text "a [redacted] b"`},
		"grammar":            {`{}`, "A", "", `{"type":"integer"}`, "compiled 18 bytes of json_schema"},
		"toolcalls":          {`{}`, "A", "hello", "", `text "h" name ""`},
		"budget-then-answer": {`{}`, "A", "", "", "on a made-up model"},
	} {
		wasm, err := os.ReadFile(filepath.Join("..", "std", "wasm", name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Name: name, Wasm: wasm, Params: []byte(c.params), Prompt: c.prompt, Text: c.text, Source: c.source,
			Vocabulary: guesttest.NewWords(), CacheDir: testcache.Dir()}
		if c.source != "" {
			o.Language = "json_schema"
		}
		r, err := Run(t.Context(), o)
		var out strings.Builder
		if err == nil {
			err = r.Write(&out, func(s string) string { return s })
		}
		if err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s\nwant %q", name, err, out.String(), c.want)
		}
		if r != nil && (len(r.Answers) == 0 || r.Answers[0].Fuel == 0) {
			t.Errorf("%s: no fuel is told", name)
		}
	}
	wasm, err := os.ReadFile(filepath.Join("..", "std", "wasm", "dry.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Name: "dry", Wasm: wasm, Params: []byte(`{"base":99}`),
		Vocabulary: guesttest.NewWords(), CacheDir: testcache.Dir()}); err == nil ||
		!strings.Contains(err.Error(), "base is 99, above the maximum, 10") {
		t.Error(err)
	}
}
