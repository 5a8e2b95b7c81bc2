package plugins

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// versionsOf returns "name:logit" of what serves, "name!" of what failed.
func versionsOf(t *testing.T, s *Set) string {
	t.Helper()
	var out []string
	for _, st := range s.List() {
		if st.State == StateFailed {
			out = append(out, st.Name+"!")
			continue
		}
		out = append(out, st.Name+":"+string(rune('0'+int(logit(t, s, st.Name)))))
	}
	return strings.Join(out, " ")
}

// TestWatchLooks: changes count at the second look that finds them alike, so a file that grows from look to look is
// never loaded in halves.
func TestWatchLooks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name+".wasm") }
	sp := spec(t, "s", bias(1).Wasm())
	log := &logLines{}
	s := open(t, Options{Specs: []Spec{sp}, Folder: dir, Log: logger(log)})
	w := &watcher{set: s}
	look := func(what, first, second string) {
		t.Helper()
		for i, want := range []string{first, second, second} {
			w.scan(t.Context())
			if got := versionsOf(t, s); got != want {
				t.Errorf("%s, look %d: %q, want %q", what, i+1, got, want)
			}
		}
	}
	look("nothing", "s:1", "s:1")
	write(t, at("a"), bias(1).Wasm())
	look("a file comes", "s:1", "s:1 a:1")

	wasm := bias(2).Wasm()
	for i := range 4 { // bytes arrive; all but the last are no module
		write(t, at("a"), wasm[:len(wasm)*i/4])
		w.scan(t.Context())
		if st, _ := s.Get("a"); st.Error != "" || st.Stats.Loads != 1 {
			t.Errorf("half a file was looked into: %+v", st)
		}
	}
	write(t, at("a"), wasm)
	look("it is whole", "s:1 a:1", "s:1 a:2")

	write(t, at("a"), wasm[:50])
	look("a bad file stays", "s:1 a:2", "s:1 a:2")
	if n := strings.Count(log.String(), "plugin rejected"); n != 1 {
		t.Errorf("rejected %d times, want once until it changes", n)
	}
	write(t, sp.Source, bias(4).Wasm())
	look("the source of a spec changes", "s:1 a:2", "s:4 a:2")
	if err := os.Remove(at("a")); err != nil {
		t.Fatal(err)
	}
	write(t, at("b"), []byte("bad"))
	look("one goes, a bad one comes", "s:4 a:2", "s:4 b!")
	if err := os.Remove(sp.Source); err != nil {
		t.Fatal(err)
	}
	look("the source of a spec goes", "s:4 b!", "s:4 b!")
	if st, _ := s.Get("s"); !strings.Contains(st.Error, "no such file") {
		t.Errorf("error %q", st.Error)
	}
}

// TestWatchSeesLinks: a link that points to another file of the same size and age, as mounted settings change, is a
// change.
func TestWatchSeesLinks(t *testing.T) {
	dir := t.TempDir()
	when := time.Unix(1_000_000_000, 0)
	for i, name := range []string{"one", "two"} {
		path := filepath.Join(dir, name, "s.wasm")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, bias(float32(i+1)).Wasm())
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	point := func(to string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		if err := os.Symlink(to, next); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
		if err := os.Rename(next, filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	point("one")
	s := open(t, Options{Specs: []Spec{{Name: "s", Source: filepath.Join(dir, "data", "s.wasm")}}})
	w := &watcher{set: s}
	for range 3 {
		w.scan(t.Context())
	}
	point("two")
	w.scan(t.Context())
	w.scan(t.Context())
	if got := versionsOf(t, s); got != "s:2" {
		t.Errorf("serving %s", got)
	}
}

// TestWatch: the goroutine looks by its clock and ends with its context.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Folder: dir})
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { s.Watch(ctx, time.Second) })
		wait.Go(func() { s.Watch(ctx, 0) })
		write(t, filepath.Join(dir, "a.wasm"), bias(1).Wasm())
		for i, want := range []int{0, 0, 1, 1} {
			synctest.Wait()
			if got := len(s.List()); got != want {
				t.Errorf("after %d s: %d plugins, want %d", i, got, want)
			}
			time.Sleep(time.Second)
		}
		cancel()
		wait.Wait()
	})
}
