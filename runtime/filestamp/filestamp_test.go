package filestamp

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSame: size, time and identity each make a change; a file that is gone is none.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(name, text string, at time.Time) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	lead := func(to string) {
		t.Helper()
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	one, twin := write("one", "a", at), write("twin", "a", at)
	lead(one)
	first := Of(link)
	if !first.Exists() || !first.Same(Of(link)) || !first.Same(Of(one)) {
		t.Error("a file that did not change")
	}
	lead(twin)
	if first.Same(Of(link)) {
		t.Error("a link that leads to another file of the same size and time")
	}
	write("one", "ab", at)
	if first.Same(Of(one)) {
		t.Error("another size")
	}
	write("one", "b", at.Add(time.Second))
	if first.Same(Of(one)) {
		t.Error("another time")
	}
	none := Of(filepath.Join(dir, "none"))
	if none.Exists() || none.Same(first) || first.Same(none) || !none.Same(Of("")) {
		t.Error("no file")
	}
	if all := All([]string{one, ""}); len(all) != 2 || !all[0].Exists() || all[1].Exists() {
		t.Errorf("several: %v", all)
	}
}
