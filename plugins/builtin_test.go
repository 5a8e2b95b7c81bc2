package plugins

import (
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/plugins/internal/guest/guesttest"
)

// opened counts how often its files are opened.
type opened struct {
	fs.FS
	times map[string]int
}

// Open implements fs.FS.
func (o opened) Open(name string) (fs.File, error) {
	o.times[name]++
	return o.FS.Open(name)
}

// TestReloadBuiltin: a reload reads a built-in module only where another one, or other settings, serve.
func TestReloadBuiltin(t *testing.T) {
	guests := guesttest.SDK(t, "banned-and-boost")
	from := opened{fstest.MapFS{"a.wasm": {Data: guests["c"]}, "b.wasm": {Data: guests["rust"]}}, map[string]int{}}
	spec := Spec{Name: "p", Source: Builtin + "a"}
	s := open(t, Options{Specs: []Spec{spec}, Builtin: from})
	reload := func(what string, change func(*Spec), loaded bool, a, b int, failure string) {
		t.Helper()
		if change != nil {
			change(&spec)
		}
		rep, err := s.Reload(t.Context(), []Spec{spec})
		if err != nil || len(rep.Loaded) == 1 != loaded || (rep.Failed["p"] != nil) != (failure != "") ||
			failure != "" && !strings.Contains(rep.Failed["p"].Error(), failure) {
			t.Errorf("%s: %+v, %v", what, rep, err)
		}
		if from.times["a.wasm"] != a || from.times["b.wasm"] != b {
			t.Errorf("%s: %v, want a %d times and b %d times", what, from.times, a, b)
		}
	}
	reload("as it is", nil, false, 1, 0, "")
	reload("another module", func(s *Spec) { s.Source = Builtin + "b" }, true, 1, 1, "")
	reload("as that is", nil, false, 1, 1, "")
	reload("other settings", func(s *Spec) { s.OnError = OnErrorSkip }, true, 1, 2, "")
	reload("another pin", func(s *Spec) { s.SHA256 = strings.Repeat("0", 64) }, false, 1, 2, "has sha256")
}

// TestCompilingIsTold: that modules are compiled is said once, at the beginning, and not where the cache has them.
func TestCompilingIsTold(t *testing.T) {
	cache := t.TempDir()
	for i, want := range []int{1, 0} {
		var lines logLines
		o := options(t, Options{Log: slog.New(slog.NewTextHandler(&lines, nil)), Specs: []Spec{
			spec(t, "one", bias(1).Wasm()), spec(t, "two", bias(2).Wasm())}})
		o.CacheDir = cache
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		text := lines.String()
		told, loaded := strings.Index(text, "compiling plugins"), strings.Index(text, "plugin loaded")
		if n := strings.Count(text, "compiling plugins"); n != want || told > loaded {
			t.Errorf("start %d: told %d times, want %d:\n%s", i, n, want, text)
		}
	}
}
