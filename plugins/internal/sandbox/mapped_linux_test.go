package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMappedCode: machine code lies in a file of the cache, as soon as that has the module, and whatever happened to
// the file since.
func TestMappedCode(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	file := ""
	run := func(what string) (mapped bool) {
		t.Helper()
		m, err := e.Compile(t.Context(), guestFile(t, "walk.wasm"), ModuleConfig{Name: "walk"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		in, err := m.New(Lease{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if got := call1(t, in, "tree", 5); got != 32 {
			t.Errorf("%s: tree(5) = %d", what, got)
		}
		file = filepath.Join(m.compiled.entry, codeFile)
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(maps)) {
			mapped = mapped || strings.Contains(line, " r-xp ") && strings.HasSuffix(line, " "+file+"\n")
		}
		return mapped
	}
	if !run("new") {
		t.Errorf("the code of a new module is not mapped")
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := append([]byte{code[0] ^ 1}, code[1:]...)
	for what, content := range map[string][]byte{
		"as it was": code, "empty": {}, "cut": code[:len(code)/2], "longer": append(other[:1:1], code...),
		"other": other,
	} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if !run(what) {
			t.Errorf("%s: the code is not mapped", what)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(code) {
			t.Errorf("%s: the file has %d bytes of other code than before, %v", what, len(now), err)
		}
	}
	if len(told.list) > 0 {
		t.Errorf("told %q", told.list)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if run("a folder in its place") || len(told.list) != 1 ||
		!strings.Contains(told.list[0], "takes more memory: walk: ") {
		t.Errorf("told %q", told.list)
	}
}
