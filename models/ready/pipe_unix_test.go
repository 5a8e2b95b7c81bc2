//go:build unix

package ready

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipes: a pipe in place of a file is refused, and not waited for.
func TestPipes(t *testing.T) {
	for _, name := range []string{ConfigFile, "onnx/model.onnx", "onnx/model.onnx_data"} {
		dir := t.TempDir()
		for file, f := range folder(t, usualShape()) {
			at := filepath.Join(dir, filepath.FromSlash(file))
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			if err == nil && file == name {
				err = unix.Mkfifo(at, 0o600)
			} else if err == nil {
				err = os.WriteFile(at, f.Data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := Open(os.DirFS(dir))
		if err == nil {
			_, err = f.Read(f.Variants[0])
		}
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
