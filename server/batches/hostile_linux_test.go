package batches

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inPlace are what may stand in the place of a file of a folder.
var inPlace = map[string]func(path string) error{
	"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"link": func(path string) error { return os.Symlink("/dev/zero", path) },
	"sparse": func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 64<<30))
	},
}

// soon fails if do takes long.
func soon(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits")
	}
}

// TestDescriptionIsNone: what stands in the place of a description keeps nobody waiting, is not read without an end,
// and costs that file or batch alone.
func TestDescriptionIsNone(t *testing.T) {
	for what, place := range inPlace {
		t.Run(what, func(t *testing.T) {
			folder := t.TempDir()
			s := open(t, folder, limits(), echoes)
			lost, kept := put(t, s, alice, input(1, ok)), put(t, s, alice, input(1, ok))
			b := create(t, s, alice, kept.ID)
			until(t, s, alice, b.ID, over)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{lost.ID, b.ID} {
				path := s.path(alice, id+jsonExt)
				if err := errors.Join(os.Remove(path), place(path)); err != nil {
					t.Fatal(err)
				}
			}
			soon(t, func() { s = open(t, folder, limits(), echoes) })
			defer s.Close()
			_, gone := s.File(alice, lost.ID)
			_, there := s.File(alice, kept.ID)
			_, batch := s.Batch(alice, b.ID)
			if !errors.Is(gone, ErrNotFound) || !errors.Is(batch, ErrNotFound) || there != nil {
				t.Errorf("lost: %v, %v; kept: %v", gone, batch, there)
			}
		})
	}
}

// TestContentIsNone: a pipe or a link in the place of a file's content keeps no client waiting and shows no other file,
// and a batch of it fails.
func TestContentIsNone(t *testing.T) {
	for _, what := range []string{"pipe", "link"} {
		t.Run(what, func(t *testing.T) {
			s := open(t, t.TempDir(), limits(), echoes)
			defer s.Close()
			f := put(t, s, alice, input(1, ok))
			path := s.path(alice, f.ID+dataExt)
			if err := errors.Join(os.Remove(path), inPlace[what](path)); err != nil {
				t.Fatal(err)
			}
			soon(t, func() {
				if r, _, err := s.OpenFile(alice, f.ID); err == nil || !strings.Contains(err.Error(), "regular file") {
					t.Errorf("opened: %v, %v", r, err)
				}
				b := create(t, s, alice, f.ID)
				if b = until(t, s, alice, b.ID, over); b.Status != Failed {
					t.Errorf("the batch: %+v", b)
				}
			})
		})
	}
}
