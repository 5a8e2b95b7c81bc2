package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

// TestCacheSize: the cache keeps to its limit, what was used longest ago goes first, whichever version left it, and
// what goes is compiled again when it is wanted.
func TestCacheSize(t *testing.T) {
	root := t.TempDir()
	old := filepath.Join(root, "compiled1-wazero-v1", "entry")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "code"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	e := engine(t, Config{CacheDir: root, CacheBytes: 3 << 20})
	if _, err := os.Stat(filepath.Dir(old)); err != nil {
		t.Fatalf("the only entry is gone: %v", err)
	}
	// A module takes about a page, and its name for what it is: pad each so that three fit.
	compile := func(n byte) (key string) {
		t.Helper()
		had := cacheEntries(root)
		m, err := e.Compile(t.Context(), module(n), ModuleConfig{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		for _, x := range cacheEntries(root) {
			if !containsPath(had, x.path) {
				key = x.path
			}
		}
		return key
	}
	var made []string
	for n := range byte(3) {
		key := compile(n)
		if key == "" {
			t.Fatal("nothing was kept")
		}
		made = append(made, key)
		if err := os.WriteFile(filepath.Join(key, "padding"), bytes.Repeat([]byte{1}, 900<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		at := before.Add(time.Duration(n+1) * time.Hour)
		if err := os.Chtimes(key, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Dir(old)); err == nil {
		t.Error("another version's entry is kept beyond the limit")
	}
	if key := compile(0); key != "" {
		t.Error("what is in the cache was compiled again")
	}
	if err := os.WriteFile(filepath.Join(made[2], "more"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(made[2], before.Add(3*time.Hour), before.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	compile(3)
	left := cacheEntries(root)
	for i, want := range []bool{true, false, false} { // 1 was used longest ago; 2 is too large for what is left
		if containsPath(left, made[i]) != want {
			t.Errorf("module %d is kept: %v", i, !want)
		}
	}
	if len(left) != 2 {
		t.Errorf("%d entries", len(left))
	}
	if key := compile(1); key == "" {
		t.Error("not compiled again")
	}
}

func containsPath(list []cacheEntry, path string) bool {
	for _, x := range list {
		if x.path == path {
			return true
		}
	}
	return false
}

// module is one that exports a function which returns n.
func module(n byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"),
		1, 5, 1, 0x60, 0, 1, 0x7f, // type () -> i32
		3, 2, 1, 0, // a function of it
		7, 5, 1, 1, 'f', 0, 0, // exported
		10, 6, 1, 4, 0, 0x41, n, 0x0b) // i32.const n
}

// TestFoundVersion: the key of a compiled module follows the version under which the engine looks for it.
func TestFoundVersion(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	m, err := e.Compile(t.Context(), module(9), ModuleConfig{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	files, err := filepath.Glob(filepath.Join(e.cache, "*", "wazero-"+foundVersion()+"-*"))
	if err != nil || len(files) != 1 {
		t.Errorf("%d folders of version %s, %v", len(files), foundVersion(), err)
	}
	own := debug.Module{Path: "tgi", Version: "(devel)"}
	for want, info := range map[string]*debug.BuildInfo{
		"dev": {Main: own},
		"v1.2.3": {Main: own, Deps: []*debug.Module{{Path: "other", Version: "v9"},
			{Path: "github.com/tetratelabs/wazero", Version: "v1.2.3"}}},
		"v7": {Main: debug.Module{Version: "v7"}, Deps: []*debug.Module{{Path: "github.com/tetratelabs/wazero"}}},
	} {
		if got := versionIn(info); got != want {
			t.Errorf("%+v: %s, want %s", info, got, want)
		}
	}
	if got := versionIn(nil); got != "dev" {
		t.Errorf("without build information: %s", got)
	}
}
