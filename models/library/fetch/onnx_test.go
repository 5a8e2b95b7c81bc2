package fetch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models/library"
)

// TestFetchONNX: of a repository with several graphs the one that is asked for is fetched, or the one that serving
// takes by itself, with its data and nothing else.
func TestFetchONNX(t *testing.T) {
	h := newHub(t)
	h.files = map[string][]byte{"README.md": []byte("words")}
	dir := filepath.Join("..", "..", "testdata", "onnx", "hub")
	for _, name := range []string{"config.json", "tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data",
		"onnx/model_q4.onnx", "onnx/model_q4f16.onnx"} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		h.files[name] = data
	}
	for file, want := range map[string][]string{"": {"onnx/model_q4.onnx"}, "q4f16": {"onnx/model_q4f16.onnx"},
		"fp32": {"onnx/model.onnx", "onnx/model.onnx_data"}} {
		l, src := newLibrary(t, library.Limits{}), h.source()
		src.File = file
		if err := fetch(l, quick(Options{}), src, nil); err != nil {
			t.Fatal(file, err)
		}
		m, err := l.Find(id)
		if err != nil {
			t.Fatal(file, err)
		}
		names, err := fs.Glob(m.FS, "onnx/*")
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%q: %v, %v", file, names, err)
		}
		if info, err := l.Describe(id); err != nil || info.Format != library.ONNX || len(info.Graphs) != 1 {
			t.Errorf("%q: %+v, %v", file, info, err)
		}
	}
}
