package playground_test

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// maxModule bounds a module of our own in lines.
const maxModule = 400

// unsafe is what makes elements or code of text, or keeps what should end with the session.
var unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\b|` +
	`createContextualFragment|DOMParser|srcdoc|javascript:`)

// elsewhere is an address of another host in a file.
var elsewhere = regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)

// TestModules: our own files are small, make elements one by one, and name no other host.
func TestModules(t *testing.T) {
	modules := 0
	err := fs.WalkDir(os.DirFS("static"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "vendor/") {
			return err
		}
		text, err := os.ReadFile("static/" + name)
		if err != nil {
			return err
		}
		modules++
		if lines := bytes.Count(text, []byte("\n")); lines > maxModule {
			t.Errorf("static/%s has %d lines, more than %d", name, lines, maxModule)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := unsafe.FindString(line); found != "" {
				t.Errorf("static/%s:%d uses %s: make elements of text with element()", name, i+1, found)
			}
			if found := elsewhere.FindString(line); found != "" && !strings.Contains(line, "www.w3.org/2000/svg") {
				t.Errorf("static/%s:%d names another host: %s", name, i+1, found)
			}
			if len([]rune(line)) > 120 && !strings.HasSuffix(name, ".svg") {
				t.Errorf("static/%s:%d has %d columns, more than 120", name, i+1, len([]rune(line)))
			}
		}
		return nil
	})
	if err != nil || modules < 6 {
		t.Errorf("%d modules, %v", modules, err)
	}
}
