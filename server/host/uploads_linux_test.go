package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgi/plugins"
)

// TestUploadIsPipe: a pipe in the place of a module keeps nobody waiting.
func TestUploadIsPipe(t *testing.T) {
	dir := uploadFolder(t.TempDir())
	u := upload{wasm: []byte("one"), settings: plugins.Upload{OnError: plugins.OnErrorFail,
		Apply: plugins.ApplyRequest}}
	if err := dir.put("a", u); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(string(dir), u.kept("a").Module)
	if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if list, err := dir.load(); err == nil || !strings.Contains(err.Error(), "is not a file") ||
		list["a"].damaged == nil {
		t.Error(err)
	}
}
