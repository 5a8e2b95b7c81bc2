package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

type goldenFile struct {
	Goldens []struct {
		Template, Case string
		Continue       bool
		Request        json.RawMessage
		Text           *string
		Error          *struct{ Class, Text string }
	}
	Rendered map[string]string
}

// TestGoldens renders real templates as Python's transformers did: the texts are
// the same, and so are the classes and texts of the exceptions.
func TestGoldens(t *testing.T) {
	file := "goldens.json.gz"
	dir := "testdata/templates/"
	if other := os.Getenv("JINJA_GOLDENS"); other != "" { // more templates than can be committed
		file, dir, _ = strings.Cut(other, ":")
	}
	var g goldenFile
	readGolden(t, file, &g)
	templates := map[string]*Template{}
	failed := map[string]bool{}
	for _, c := range g.Goldens {
		tmpl, ok := templates[c.Template]
		if !ok {
			src, err := os.ReadFile(dir + c.Template)
			if err != nil {
				t.Fatal(err)
			}
			if tmpl, err = Parse(c.Template, string(src)); err != nil {
				t.Errorf("%v", err)
			}
			templates[c.Template] = tmpl
		}
		if tmpl == nil {
			failed[c.Template] = true
			continue
		}
		in := Input{JSON: c.Request, Trusted: []string{"bos_token", "eos_token"}, Now: testNow}
		segs, err := tmpl.RenderChat(in, ChatOptions{ContinueFinal: c.Continue}, Limits{})
		got := Text(segs)
		switch {
		case c.Error != nil && err == nil:
			t.Errorf("%s, %s: no error, want %s: %s", c.Template, c.Case, c.Error.Class, c.Error.Text)
		case c.Error != nil:
			checkError(t, c.Template+", "+c.Case, err, c.Error.Class, c.Error.Text)
		case err != nil:
			t.Errorf("%s, %s: %v", c.Template, c.Case, err)
		case got != *c.Text:
			t.Errorf("%s, %s:\n%s", c.Template, c.Case, firstDiff(got, *c.Text))
		default:
			continue
		}
		if t.Failed() {
			failed[c.Template] = true
		}
	}
	t.Logf("%d renderings of %d templates", len(g.Goldens), len(templates))
	if len(g.Goldens) < 1500 || len(templates) < 60 {
		t.Errorf("%d renderings of %d templates: the goldens are not complete", len(g.Goldens), len(templates))
	}
}

// checkError compares an error with Python's exception.
func checkError(t *testing.T, what string, err error, class, text string) {
	t.Helper()
	if class == "ValueError" && strings.HasPrefix(text, "continue_final_message") {
		if !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, want ErrInput", what, err)
		}
		return
	}
	var e *RenderError
	if !errors.As(err, &e) {
		t.Errorf("%s: %v, want %s: %s", what, err, class, text)
		return
	}
	if e.Class != class || e.Msg != text {
		t.Errorf("%s:\ngot  %s: %s\nwant %s: %s", what, e.Class, e.Msg, class, text)
	}
}
