//go:build unix

package library

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tgi/models/scratch"
)

// TestSweep: at the start what imports and deletions that were cut off have left goes,
// and nothing of what another process is at; a folder that is not there stays so.
func TestSweep(t *testing.T) {
	l := opened(t, Options{})
	l.Sweep()
	if _, err := os.Stat(l.Dir()); err == nil {
		if entries, _ := os.ReadDir(l.Dir()); len(entries) > 0 {
			t.Errorf("the models folder holds %v", entries)
		}
	}
	make := func(parts ...string) string {
		dir := filepath.Join(append([]string{l.Dir()}, parts...)...)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "model.safetensors")
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		hour := time.Now().Add(-time.Hour)
		for _, path := range []string{file, dir} {
			if err := os.Chtimes(path, hour, hour); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	cut, busy, fetch, model := make(tempDir, "import-A"), make(tempDir, "import-B"), make(partialDir, "x"), make("mine")
	defer scratch.Claim(busy)()
	l.Sweep()
	for dir, want := range map[string]bool{cut: false, busy: true, fetch: true, model: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
	// An import of this process claims its place.
	root, err := l.open()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at, remove, err := l.makeTemp(root, "import")
	if err != nil {
		t.Fatal(err)
	}
	abs := filepath.Join(l.Dir(), filepath.FromSlash(at))
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(abs, hour, hour); err != nil {
		t.Fatal(err)
	}
	l.Sweep()
	if _, err := os.Stat(abs); err != nil {
		t.Error("a running import was swept:", err)
	}
	remove()
	if _, err := os.Stat(abs); err == nil {
		t.Error("an import that is over left its folder")
	}
}
