package library

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// member is one entry of a test's archive.
type member struct {
	name string
	data []byte
	kind byte   // of tar; 0 is a file
	link string // where a link leads
}

func tarOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.data)), Typeflag: m.kind, Linkname: m.link,
			Format: tar.FormatPAX}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		h.SetMode(0o644)
		if m.kind == tar.TypeSymlink {
			h.SetMode(fs.ModeSymlink | 0o777)
			m.data = []byte(m.link)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// members reads a golden checkpoint as entries below prefix.
func members(t testing.TB, golden, prefix string) []member {
	t.Helper()
	var out []member
	dir := filepath.Join(goldenDir, golden)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, member{name: prefix + e.Name(), data: data})
	}
	return out
}

func fileWith(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// holds fails unless the model has exactly these files of the golden, unchanged.
func holds(t *testing.T, m Model, golden string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(names)+1 { // and the origin
		t.Errorf("%s holds %v, want %v", m.Dir, entries, names)
	}
	for _, n := range names {
		got, err1 := os.ReadFile(filepath.Join(m.Dir, n))
		want, err2 := os.ReadFile(filepath.Join(goldenDir, golden, n))
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %v, or other bytes", n, err1, err2)
		}
	}
}

var qwen2Files = []string{"config.json", "generation_config.json", "model-00001-of-00004.safetensors",
	"model-00002-of-00004.safetensors",
	"model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors", "model.safetensors.index.json"}

func TestImport(t *testing.T) {
	l := opened(t, Options{})
	nested := append(members(t, "qwen2", "./top/model/"), member{name: "./top/", kind: tar.TypeDir},
		member{name: "README.md", data: []byte("hi")})
	sources := map[string]string{
		"folder": filepath.Join(goldenDir, "qwen2"),
		"tar":    fileWith(t, tarOf(t, nested...)),
		"tgz":    fileWith(t, gzipOf(t, tarOf(t, members(t, "qwen2", "")...))),
		"zip":    fileWith(t, zipOf(t, members(t, "qwen2", "q/")...)),
	}
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			var last int64
			m, err := l.Import(context.Background(), mustID(t, "org/"+name), from,
				ImportOptions{Progress: func(done, _ int64) {
					if done < last {
						t.Errorf("progress went from %d to %d", last, done)
					}
					last = done
				}})
			if err != nil {
				t.Fatal(err)
			}
			holds(t, m, "qwen2", qwen2Files...)
			if last == 0 {
				t.Error("no progress was told")
			}
			if info, err := l.Describe(m.ID); err != nil || info.Origin == nil || !filepath.IsAbs(info.Origin.Source) {
				t.Errorf("origin %+v, %v", info.Origin, err)
			}
			if _, err := l.Import(context.Background(), m.ID, from, ImportOptions{}); !errors.Is(err, ErrExists) {
				t.Errorf("second import: %v", err)
			}
		})
	}
	clean(t, l)
}

func TestImportRefuses(t *testing.T) {
	good := members(t, "qwen2", "")
	with := func(m ...member) []member { return append(append([]member{}, good...), m...) }
	huge := member{name: "model-2.safetensors", data: make([]byte, 1<<20)}
	many := with()
	for i := range 60 {
		many = append(many, member{name: path.Join("d", strings.Repeat("x", i+1)+".json"), data: []byte("{}")})
	}
	truncated := tarOf(t, good...)
	cases := []struct {
		name string
		data []byte
		want error
	}{
		{"parent", tarOf(t, with(member{name: "../evil.json", data: []byte("{}")})...), ErrPath},
		{"deep parent", tarOf(t, with(member{name: "a/../../evil.json", data: []byte("{}")})...), ErrPath},
		{"absolute", tarOf(t, with(member{name: "/tmp/evil.json", data: []byte("{}")})...), ErrPath},
		{"zip parent", zipOf(t, with(member{name: "../evil.json", data: []byte("{}")})...), ErrPath},
		{"zip absolute", zipOf(t, with(member{name: "/tmp/evil.json", data: []byte("{}")})...), ErrPath},
		{"drive", tarOf(t, with(member{name: "C:/evil.json", data: []byte("{}")})...), ErrPath},
		{"through a link", tarOf(t, with(member{name: "d", kind: tar.TypeSymlink, link: ".."},
			member{name: "d/evil.json", data: []byte("{}")})...), ErrPath},
		{"zip through a link", zipOf(t, with(member{name: "d", kind: tar.TypeSymlink, link: ".."},
			member{name: "d/evil.json", data: []byte("{}")})...), ErrPath},
		{"zip backslash", zipOf(t, with(member{name: `..\evil.json`, data: []byte("{}")})...), ErrPath},
		{"ignored name", tarOf(t, with(member{name: "../evil.txt", data: []byte("x")})...), ErrPath},
		{"symlink", tarOf(t, with(member{name: "tokenizer.json", kind: tar.TypeSymlink, link: "/etc/passwd"})...),
			ErrPath},
		{"hardlink", tarOf(t, with(member{name: "tokenizer.json", kind: tar.TypeLink, link: "config.json"})...),
			ErrPath},
		{"device", tarOf(t, with(member{name: "tokenizer.json", kind: tar.TypeChar})...), ErrPath},
		{"zip symlink", zipOf(t, with(member{name: "tokenizer.json", kind: tar.TypeSymlink, link: "/etc/passwd"})...),
			ErrPath},
		{"twice", tarOf(t, with(good[0])...), ErrPath},
		{"file as folder", tarOf(t, with(member{name: "config.json/x.json", data: []byte("{}")})...), ErrPath},
		{"bytes", gzipOf(t, tarOf(t, with(huge)...)), ErrLimit},
		{"zip bytes", zipOf(t, with(huge)...), ErrLimit},
		{"files", tarOf(t, many...), ErrLimit},
		{"truncated", truncated[:len(truncated)/2], ErrUnusable},
		{"truncated gzip", gzipOf(t, truncated)[:2000], ErrUnusable},
		{"two models", tarOf(t, append(members(t, "qwen2", "a/"), members(t, "qwen2", "b/")...)...), ErrUnusable},
		{"no config", tarOf(t, good[2:]...), ErrUnusable},
		{"no weights", tarOf(t, good[:2]...), ErrUnusable},
		{"no archive", []byte("hello"), ErrUnusable},
		{"empty", nil, ErrUnusable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := opened(t, Options{Dir: filepath.Join(dir, "models"), Limits: Limits{MaxBytes: 1 << 20, MaxFiles: 50}})
			_, err := l.Import(context.Background(), "x", fileWith(t, c.data), ImportOptions{})
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got := ids(t, l); len(got) > 0 {
				t.Errorf("became a model: %v", got)
			}
			clean(t, l)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("written outside: %v, %v", entries, err)
			}
		})
	}
}

func TestImportFolderRefuses(t *testing.T) {
	l := opened(t, Options{Limits: Limits{MaxBytes: 1 << 20, MaxFiles: 50}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Import(ctx, "y", filepath.Join(goldenDir, "qwen2"), ImportOptions{}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	l.space = func(string) (int64, bool) { return 1000, true }
	if _, err := l.Import(context.Background(), "y", filepath.Join(goldenDir, "qwen2"),
		ImportOptions{}); !errors.Is(err, ErrSpace) {
		t.Errorf("full disk: %v", err)
	}
	l.space = freeSpace
	l.limits.MaxBytes = 1000
	if _, err := l.Import(context.Background(), "y", filepath.Join(goldenDir, "qwen2"),
		ImportOptions{}); !errors.Is(err, ErrLimit) {
		t.Errorf("too large: %v", err)
	}
	if _, err := l.Import(context.Background(), "y", filepath.Dir(l.Dir()), ImportOptions{}); !errors.Is(err,
		ErrUnusable) {
		t.Errorf("a folder that holds the models folder: %v", err)
	}
	clean(t, l)
}

func TestChoose(t *testing.T) {
	index := `{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`
	read := func(string) ([]byte, error) { return []byte(index), nil }
	cases := []struct{ name, have, want string }{
		{"shards",
			"config.json model.safetensors.index.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors consolidated.safetensors README.md pytorch_model.bin",
			"config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
		{"single",
			"config.json model.safetensors tokenizer.json tokenizer_config.json vocab.json onnx/model.onnx chat_template.jinja additional_chat_templates/tool.jinja additional_chat_templates/.x.jinja",
			"additional_chat_templates/tool.jinja chat_template.jinja config.json model.safetensors tokenizer.json tokenizer_config.json"},
	}
	for _, c := range cases {
		got, err := Choose(strings.Fields(c.have), "", read)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", c.name, got, err, c.want)
		}
	}
	for name, bad := range map[string]string{"outside": `{"weight_map": {"a": "../x.safetensors"}}`,
		"folder": `{"weight_map": {"a": "d/x.safetensors"}}`} {
		index = bad
		if _, err := Choose([]string{"config.json", "model.safetensors.index.json"}, "", read); !errors.Is(err,
			ErrPath) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]string{"json": "{", "empty": "{}",
		"missing": `{"weight_map": {"a": "x.safetensors"}}`} {
		index = bad
		if _, err := Choose([]string{"config.json", "model.safetensors.index.json"}, "", read); !errors.Is(err,
			ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
