package host

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgi/plugins"
	"tgi/server"
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

// TestUploadDiskFull: an upload that a full disk has no room for is no fault of the module, and what served serves on.
func TestUploadDiskFull(t *testing.T) {
	for cause, want := range map[error]error{syscall.ENOSPC: server.ErrNoRoom, syscall.EDQUOT: server.ErrNoRoom,
		syscall.EROFS: server.ErrNoRoom, syscall.EACCES: server.ErrRefused} {
		if got := whyNotKept(&os.PathError{Op: "write", Path: "a", Err: cause}); got != want {
			t.Errorf("%v: %v", cause, got)
		}
	}
	dir := t.TempDir()
	switch err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); {
	case errors.Is(err, syscall.EPERM):
		t.Skip("only root can mount a small disk")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	p := openPlugged(t, nil)
	p.models.folder = uploadFolder(dir)
	if status, text := p.call(t, http.MethodPut, "/admin/plugins/mine", newModule("").wasm()); status !=
		http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	before, _ := p.models.Get("mine")
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 64<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	status, text := p.call(t, http.MethodPut, "/admin/plugins/mine", newModule(`"allow"`).wasm())
	if status != http.StatusInsufficientStorage || !strings.Contains(text, `"insufficient_disk"`) ||
		!strings.Contains(text, "no space left on device") {
		t.Errorf("%d %s", status, text)
	}
	if now, ok := p.models.Get("mine"); !ok || now.SHA256 != before.SHA256 {
		t.Errorf("%+v serves, before %+v", now, before)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*"+tempExt)); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
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
