package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCacheDescriptors: a process that has no file descriptors left, wherever that begins, loses nothing of the cache.
func TestCacheDescriptors(t *testing.T) {
	dir, inside := os.Getenv(confined), false
	if inside = dir != ""; !inside {
		dir = t.TempDir()
	}
	var told warnings
	e := engine(t, Config{CacheDir: dir, Warn: told.add})
	wasm := guestFile(t, "walk.wasm")
	use := func() error {
		m, err := e.Compile(t.Context(), wasm, ModuleConfig{Name: "walk"})
		if err != nil {
			return err
		}
		defer m.Close()
		p, err := m.NewPool(PoolConfig{Ready: 1, Keep: &Keep{Key: "a", Note: func() []byte { return []byte("note") },
			Take: func([]byte, uint64) error { return nil }}})
		if err != nil {
			return err
		}
		p.Close()
		<-p.Drained()
		return nil
	}
	if !inside {
		if err := use(); err != nil {
			t.Fatal(err)
		}
		runConfined(t, dir)
		return
	}
	whole := func() []string {
		list, err := filepath.Glob(filepath.Join(e.cache, "*"))
		if err != nil || len(list) != 2 {
			t.Fatalf("the cache holds %q, %v; told %q", list, err, told.list)
		}
		return list
	}
	files := map[string]os.FileInfo{}
	for _, path := range whole() {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = info
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for most := uint64(0); ; most++ {
		before := len(told.list)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		failed := use()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		for _, path := range whole() {
			if info, err := os.Stat(path); err != nil || !os.SameFile(info, files[path]) {
				t.Fatalf("with %d descriptors %s is gone: %v; told %q", most, path, err, told.list[before:])
			}
		}
		if failed == nil && len(told.list) == before {
			if most == 0 {
				t.Error("it does without descriptors")
			}
			return
		}
		if most > 200 {
			t.Fatalf("with 200 descriptors: %v, told %q", failed, told.list[before:])
		}
	}
}
