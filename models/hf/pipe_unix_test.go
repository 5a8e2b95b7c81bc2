//go:build unix

package hf

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipe: a pipe with the name of a model is refused, and not waited for.
func TestPipe(t *testing.T) {
	at := filepath.Join(t.TempDir(), "m.gguf")
	if err := unix.Mkfifo(at, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{at, filepath.Dir(at)} {
		if _, err := Describe(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
