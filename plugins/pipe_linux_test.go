package plugins

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPipeInFolder: a file of the folder that is no regular one is refused at once; opening a pipe would wait for a
// writer for ever, and so would the end of the server.
func TestPipeInFolder(t *testing.T) {
	folder := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(folder, "pipe.wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(folder, "zero.wasm")); err != nil {
		t.Fatal(err)
	}
	began := make(chan *Set, 1)
	go func() {
		s, err := Open(context.Background(), options(t, Options{Folder: folder}))
		if err != nil {
			t.Error(err)
		}
		began <- s
	}()
	select {
	case s := <-began:
		for _, name := range []string{"pipe", "zero"} {
			if st, _ := s.Get(name); st.State != StateFailed || !strings.Contains(st.Error, "is not a regular file") {
				t.Errorf("%+v", st)
			}
		}
		s.Close()
	case <-time.After(20 * time.Second):
		t.Fatal("a pipe in the folder keeps the set from opening")
	}
}
