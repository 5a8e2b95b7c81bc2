package swaptemplate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/examples/internal/served"
)

const question = `"messages":[{"role":"user","content":"Who are you?"}]`

// TestSwap: the request after an edit gets the new text, and one after a
// mistake still the text before it.
func TestSwap(t *testing.T) {
	folder := served.Folder(t, map[string]string{"tgi.toml": "tgi.toml", "chat.jinja": "chat.jinja"})
	s := served.Start(t, folder)
	s.Documented(t, "README.md", func() { replace(t, folder, "name = 'Bob'", "name = 'Ann'") })
	for _, name := range []string{"Bo", "Liz"} {
		replace(t, folder, "set name = '", "set name = '"+name+" ")
		if got := s.Prompt(t, question); !strings.Contains(got, "Your name is "+name+" ") {
			t.Errorf("after the edit to %s: %q", name, got)
		}
	}
	before := s.Prompt(t, question)
	replace(t, folder, "endfor", "endfur")
	if got := s.Prompt(t, question); got != before {
		t.Errorf("after a mistake: %q, before it %q", got, before)
	}
	replace(t, folder, "endfur", "endfor")
	replace(t, folder, "Your name is ", "You are ")
	if got := s.Prompt(t, question); !strings.Contains(got, "You are ") {
		t.Errorf("after the mistake was mended: %q", got)
	}
}

// replace edits the template: a new file is written and renamed, as editors
// do, so that no reader ever finds half of it.
func replace(t *testing.T, folder, before, after string) {
	t.Helper()
	file := filepath.Join(folder, "chat.jinja")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), before, after, 1)
	if text == string(b) {
		t.Fatalf("%q is not in the template", before)
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
