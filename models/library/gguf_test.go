package library

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/gguf/gguftest"
)

func TestChooseGGUF(t *testing.T) {
	const several = "README.md config.json q/m-Q8_0-00001-of-00002.gguf q/m-Q8_0-00002-of-00002.gguf m-Q4_K_M.gguf " +
		"m-Q6_K.gguf mmproj-m-F16.gguf"
	for name, c := range map[string]struct{ have, file, want string }{
		"one":         {"README.md m.gguf config.json mmproj-m.gguf chat_template.jinja", "", "chat_template.jinja m.gguf"},
		"by name":     {several, "m-Q6_K.gguf", "m-Q6_K.gguf"},
		"by its end":  {several, "q4_k_m", "m-Q4_K_M.gguf"},
		"parts":       {several, "Q8_0", "q/m-Q8_0-00001-of-00002.gguf q/m-Q8_0-00002-of-00002.gguf"},
		"safetensors": {"config.json model.safetensors m.gguf", "", "config.json model.safetensors"},
		"in spite of": {"config.json model.safetensors m.gguf", "m", "m.gguf"},
	} {
		got, err := Choose(strings.Fields(c.have), c.file, nil)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct{ have, file, want string }{
		"several":      {several, "", "there are 2 models in the GGUF format, name one: m-Q4_K_M.gguf, m-Q6_K.gguf"},
		"none":         {several, "Q5_K_M", `there is no file "Q5_K_M" in the GGUF format`},
		"no end":       {several, "K_M", `there is no file "K_M"`},
		"part missing": {"m-00001-of-00002.gguf", "", `"m-00002-of-00002.gguf" is missing`},
		"projector":    {several, "mmproj-m-F16.gguf", "there is no file"},
	} {
		if got, err := Choose(strings.Fields(c.have), c.file, nil); !errors.Is(err, ErrUnusable) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestImportGGUF: a file alone, and a folder of one, become models, and what is said of them is what they hold.
func TestImportGGUF(t *testing.T) {
	keys, list := gguftest.Llama()
	list[0].Type, list[0].Data = 8, make([]byte, 8*34) // Q8_0
	dir := t.TempDir()
	at := filepath.Join(dir, "m.gguf")
	for name, data := range map[string][]byte{"m.gguf": gguftest.File(keys, list),
		"chat_template.jinja": []byte("beside"),
		"notes.txt":           nil} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := opened(t, Options{})
	for id, from := range map[ID]string{"file": at, "folder": dir} {
		m, err := l.Import(context.Background(), id, from, ImportOptions{})
		if err != nil {
			t.Fatal(id, err)
		}
		names, err := fs.Glob(m.FS, "*")
		want := map[ID][]string{"file": {"m.gguf"}, "folder": {"chat_template.jinja", "m.gguf"}}[id]
		names = slices.DeleteFunc(names, func(n string) bool { return n[0] == '.' })
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: files %v, %v", id, names, err)
		}
		info, err := l.Describe(id)
		if err != nil {
			t.Fatal(id, err)
		}
		if c, ok := info.Choice(models.CPU, models.Stored); !ok || c.Bytes < 8*34 || info.Format != GGUF ||
			!slices.Equal(info.DTypes, []string{"F32", "Q8_0"}) || info.Parameters != 8*32+2*32+32+5*32*32+2*16*32 ||
			!info.Tokenizer || info.Modified.IsZero() {
			t.Errorf("%s: %+v", id, info)
		}
	}
	if err := os.WriteFile(at, []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Import(context.Background(), "cut", at, ImportOptions{}); !errors.Is(err, ErrUnusable) {
		t.Errorf("a file that is cut off: %v", err)
	}
	clean(t, l)
}

// TestBareFiles: files in the models folder, and in folders that are no models, are models by their names without
// extension; they are deleted with all their parts.
func TestBareFiles(t *testing.T) {
	keys, list := gguftest.Llama()
	whole := gguftest.File(keys, list)
	keys["split.count"] = 2
	l := opened(t, Options{})
	for name, data := range map[string][]byte{"a.gguf": whole, "one/d.gguf": whole, "two/b.gguf": whole,
		"two/c.Q8_0.gguf": whole, "two/mmproj-c.gguf": whole, "x-00001-of-00002.gguf": gguftest.File(keys, list[:2]),
		"x-00002-of-00002.gguf": gguftest.File(nil, list[2:]), "notes.txt": nil} {
		at := filepath.Join(l.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() (out []ID) {
		models, err := l.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range models {
			out = append(out, m.ID)
		}
		return out
	}
	want := []ID{"a", "one", "two/b", "two/c.Q8_0", "x"}
	if got := ids(); !slices.Equal(got, want) {
		t.Fatalf("models %v, want %v", got, want)
	}
	for _, id := range want {
		if info, err := l.Describe(id); err != nil || info.Format != GGUF {
			t.Errorf("%s: %+v, %v", id, info, err)
		}
		if err := l.checkAvailable(id); !errors.Is(err, ErrExists) {
			t.Errorf("%s is free: %v", id, err)
		}
		if err := l.Delete(id); err != nil || l.Has(id) {
			t.Errorf("%s: %v, still there: %v", id, err, l.Has(id))
		}
	}
	if got := ids(); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if names, err := fs.Glob(os.DirFS(l.Dir()), "*/*.gguf"); err != nil || !slices.Equal(names,
		[]string{"two/mmproj-c.gguf"}) {
		t.Errorf("files left: %v, %v", names, err)
	}
}
