package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if list, err := dir.load(); err == nil || !strings.Contains(err.Error(), "a regular file is wanted") ||
		list["a"].damaged == nil {
		t.Error(err)
	}
}

// TestUploadSettingsAreNone: what stands in the place of an upload's settings keeps nobody waiting, is not read without
// an end, and is named.
func TestUploadSettingsAreNone(t *testing.T) {
	for what, place := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
		"sparse": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 64<<30))
		},
	} {
		dir := uploadFolder(t.TempDir())
		path := filepath.Join(string(dir), "q.json")
		if err := place(path); err != nil {
			t.Fatal(err)
		}
		var list map[string]upload
		done := make(chan error, 1)
		go func() {
			var err error
			list, err = dir.load()
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), path) || list["q"].damaged == nil {
				t.Errorf("%s: %v, %v", what, err, list)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it waits", what)
		}
	}
}
