package fetch

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"tgi/models/gguf/gguftest"
	"tgi/models/library"
)

// TestFetchGGUF: of a repository with several files in the GGUF format the one that is asked for is fetched, with its
// parts, and a file by its URL.
func TestFetchGGUF(t *testing.T) {
	keys, list := gguftest.Llama()
	whole := gguftest.File(keys, list)
	keys["split.count"], keys["split.tensors.count"] = 2, len(list)
	first, second := gguftest.File(keys, list[:3]), gguftest.File(map[string]any{"split.no": 1}, list[3:])
	h := newHub(t)
	h.files = map[string][]byte{"README.md": []byte("words"), "m-Q4_K_M.gguf": whole, "m-Q6_K.gguf": []byte("other"),
		"big/m-F32-00001-of-00002.gguf": first, "big/m-F32-00002-of-00002.gguf": second}
	for file, want := range map[string][]string{"Q4_K_M": {"m-Q4_K_M.gguf"},
		"F32": {"m-F32-00001-of-00002.gguf", "m-F32-00002-of-00002.gguf"}} {
		l, src := newLibrary(t, library.Limits{}), h.source()
		src.File = file
		if err := fetch(l, quick(Options{}), src, nil); err != nil {
			t.Fatal(file, err)
		}
		m, err := l.Find(id)
		if err != nil {
			t.Fatal(file, err)
		}
		names, err := fs.Glob(m.FS, "*.gguf")
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: %v, %v", file, names, err)
		}
		info, err := l.Describe(id)
		if err != nil || info.Format != library.GGUF || info.Parameters == 0 {
			t.Errorf("%s: %+v, %v", file, info, err)
		}
	}
	err := fetch(newLibrary(t, library.Limits{}), quick(Options{}), h.source(), nil)
	if wantError(t, err, library.ErrUnusable); !strings.Contains(err.Error(), "m-Q4_K_M.gguf, m-Q6_K.gguf") {
		t.Errorf("%v", err)
	}
	one := Source{Files: []File{{Path: "m-Q4_K_M.gguf", URL: h.URL + "/org/model/resolve/" + h.sha + "/m-Q4_K_M.gguf"}}}
	if err := fetch(newLibrary(t, library.Limits{}), quick(Options{}), one, nil); err != nil {
		t.Errorf("by URL: %v", err)
	}
	other := h.source()
	other.File = "Q6_K"
	wantError(t, fetch(newLibrary(t, library.Limits{}), quick(Options{}), other, nil), library.ErrUnusable)
}
