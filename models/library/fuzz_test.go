package library

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParseID: an accepted id is a path that leads downwards, and its flat form is one name.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"org/model", "..", "a/../b", "a//b", ".x", "a.", "C:/x", "a\\b", "%2e%2e/x", "a/b/c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if !errors.Is(err, ErrID) || len(err.Error()) > 1000 {
				t.Fatalf("error %v", err)
			}
			return
		}
		if path.Clean("/"+s) != "/"+s || !filepath.IsLocal(id.path()) || strings.Contains(s, "..") &&
			strings.Contains("/"+s+"/", "/../") {
			t.Fatalf("%q was accepted", s)
		}
		if strings.ContainsAny(id.fileName(), `/\`) || strings.HasPrefix(id.fileName(), ".") ||
			len(id.fileName()) > 210 {
			t.Fatalf("flat form %q", id.fileName())
		}
	})
}

// FuzzUnpack: whatever an archive holds, nothing but ordinary files within the limits is
// written, and nothing outside the folder.
func FuzzUnpack(f *testing.F) {
	small := []member{{name: "m/config.json", data: []byte("{}")}, {name: "m/model.safetensors", data: []byte("x")}}
	f.Add(tarOf(f, small...))
	f.Add(gzipOf(f, tarOf(f, small...)))
	f.Add(zipOf(f, small...))
	f.Add(tarOf(f, member{name: "../../x.json", data: []byte("{}")}))
	f.Add(tarOf(f, member{name: "x.json", kind: '2', link: "/etc/passwd"}, member{name: "x.json/y.json",
		data: []byte("{}")}))
	f.Add(zipOf(f, member{name: "../x.json", data: []byte("{}")}, member{name: "y.json", kind: '2', link: ".."}))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		in := filepath.Join(dir, "in")
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(in)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		limits := Limits{MaxBytes: 1 << 16, MaxFiles: 10}
		u := &unpacker{into: root, limits: limits, left: limits.MaxBytes}
		names, err := u.unpack(context.Background(), strings.NewReader(string(data)), int64(len(data)))
		for _, known := range []error{ErrPath, ErrLimit, ErrUnusable} {
			if errors.Is(err, known) {
				err = nil
			}
		}
		if err != nil {
			t.Fatalf("error of no kind: %v", err)
		}
		var sum int64
		files := 0
		if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			st, err := d.Info()
			if err != nil || !st.Mode().IsRegular() || !strings.HasPrefix(name, in) {
				t.Errorf("%s: %v, %v", name, st, err)
			}
			sum += st.Size()
			files++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if sum > limits.MaxBytes || files > limits.MaxFiles || len(names) > limits.MaxFiles {
			t.Errorf("%d bytes in %d files", sum, files)
		}
	})
}
