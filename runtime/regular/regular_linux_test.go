package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRead: a regular file is read up to the bound; nothing else is, and nobody waits.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(at("file"), []byte("seven b"), 0o600), unix.Mkfifo(at("pipe"), 0o600),
		os.Symlink("file", at("link")), os.Symlink("/dev/zero", at("zero")), os.Symlink("link2", at("link2")),
		os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40), os.Mkdir(at("dir"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		flags int
		most  int64
		want  error
	}{
		{"file", NoLink, 7, nil}, {"file", 0, 6, ErrTooLarge}, {"link", 0, 7, nil}, {"link", NoLink, 7, ErrOther},
		{"pipe", 0, 7, ErrOther}, {"pipe", NoLink, 7, ErrOther}, {"zero", 0, 7, ErrOther},
		{"zero", NoLink, 7, ErrOther},
		{"link2", 0, 7, unix.ELOOP}, {"sparse", NoLink, 7, ErrTooLarge}, {"dir", NoLink, 7, ErrOther},
		{"none", NoLink, 7, fs.ErrNotExist},
	} {
		text, err := Read(at(c.name), c.flags, c.most)
		if !errors.Is(err, c.want) || err == nil && string(text) != "seven b" {
			t.Errorf("%s, flags %#x, at most %d: %q, %v", c.name, c.flags, c.most, text, err)
		}
		if c.flags != 0 || errors.Is(c.want, ErrTooLarge) {
			continue // Check follows links, and knows no bound
		}
		if err := Check(at(c.name)); !errors.Is(err, c.want) {
			t.Errorf("check of %s: %v", c.name, err)
		}
	}
	if _, err := Open(at("dir"), os.O_RDWR|os.O_CREATE|NoLink); !errors.Is(err, ErrOther) {
		t.Errorf("a folder for writing: %v", err)
	}
}
