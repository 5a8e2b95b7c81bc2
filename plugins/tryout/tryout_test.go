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

// TestRunCharacters: a parser gets whole characters, however the tokens cut them.
func TestRunCharacters(t *testing.T) {
	f := guesttest.Fake{Description: guesttest.Tools, Code: map[string]guesttest.Code{
		"tgi_tools_feed": guesttest.Join(guesttest.Arg(1), guesttest.Const(1), guesttest.Equal(),
			guesttest.When(guesttest.Trap()), guesttest.Long(0))}}
	r, err := Run(t.Context(), Options{Name: "f", Wasm: f.Wasm(), Prompt: "A", Text: "漢🙂",
		Vocabulary: guesttest.NewWords(), CacheDir: testcache.Dir()})
	if err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for text, want := range map[string]int{"": 0, "a": 1, "a\xc3": 1, "é": 2, "\xf0\x9f\x99": 0, "🙂": 4,
		"\x80\x80\x80\x80": 4} {
		if got := whole([]byte(text)); got != want {
			t.Errorf("%q: %d whole bytes, want %d", text, got, want)
		}
	}
}

// TestRunPrints: what a module with hidden state prints comes from several goroutines.
func TestRunPrints(t *testing.T) {
	f := guesttest.Fake{Table: true, Imports: []string{"log"}, Data: map[uint32]string{guesttest.Free: "hi"},
		Code: map[string]guesttest.Code{"tgi_init": guesttest.Join(guesttest.SetTable(), guesttest.Const(2),
			guesttest.Const(guesttest.Free), guesttest.Const(2), guesttest.Call(0), guesttest.Long(0))}}
	r, err := Run(t.Context(), Options{Name: "prints", Wasm: f.Wasm(), Vocabulary: guesttest.NewWords(),
		CacheDir: testcache.Dir()})
	if err != nil || len(r.Log) == 0 || r.Log[0] != "warn: hi" {
		t.Errorf("%v: %q", err, r.Log)
	}
}
