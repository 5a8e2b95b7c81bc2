package rewrite

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
)

// TestFingerprint: every change of the package's sources changes it, those of its tests do not.
func TestFingerprint(t *testing.T) {
	files, err := fs.Glob(sources, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := fstest.MapFS{}
	for _, name := range files {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	for _, name := range []string{"rewrite.go", "charge.go", "hollow.go"} {
		if all[name] == nil {
			t.Errorf("%s is not among the sources", name)
		}
	}
	if got := fingerprint(all); got != Fingerprint() || len(got) != 16 {
		t.Errorf("%q, that of the program is %q", got, Fingerprint())
	}
	changed := func(change func(fstest.MapFS)) bool {
		other := maps.Clone(all)
		change(other)
		return fingerprint(other) != Fingerprint()
	}
	other := slices.Clone(all["charge.go"].Data)
	other[len(other)/2] ^= 1
	if !changed(func(m fstest.MapFS) { m["charge.go"] = &fstest.MapFile{Data: other} }) ||
		!changed(func(m fstest.MapFS) { m["new.go"] = &fstest.MapFile{} }) ||
		!changed(func(m fstest.MapFS) { delete(m, "charge.go") }) {
		t.Error("a change of the sources is not seen")
	}
	if changed(func(m fstest.MapFS) { m["new_test.go"] = &fstest.MapFile{} }) {
		t.Error("a new test changes it")
	}
}
