package share

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tgi/runtime/regular"
)

// TestPipes: a pipe in the place of a key, or of the file beside a module, keeps nobody waiting.
func TestPipes(t *testing.T) {
	module := filepath.Join(t.TempDir(), "m.wasm")
	if err := errors.Join(unix.Mkfifo(module, 0o600), unix.Mkfifo(Beside(module), 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	go func() {
		_, err := ReadBeside(module, nil)
		done <- err
		_, err = NewSigner("me", module)
		done <- err
		_, err = ReadSigner(module, func() ([]byte, error) { return nil, nil })
		done <- err
	}()
	for range cap(done) {
		select {
		case err := <-done:
			if !errors.Is(err, regular.ErrOther) || errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it waits")
		}
	}
}
