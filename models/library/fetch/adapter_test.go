package fetch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/library"
)

// TestFetchAdapter: of a repository that holds an adapter, its two files are fetched; it is no model of the library.
// One that is not computed is refused before its weights are fetched.
func TestFetchAdapter(t *testing.T) {
	h := newHub(t)
	h.files = map[string][]byte{"README.md": []byte("words")}
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
		data, err := os.ReadFile(filepath.Join("../../testdata/adapters/llama2-all", name))
		if err != nil {
			t.Fatal(err)
		}
		h.files[name] = data
	}
	l := newLibrary(t, library.Limits{})
	if err := fetch(l, quick(Options{}), h.source(), nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Dir(), filepath.FromSlash(string(id)))
	if !library.IsAdapter(dir) || l.Has(id) {
		t.Errorf("an adapter: %v, a model: %v", library.IsAdapter(dir), l.Has(id))
	}
	for name, data := range h.files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); (err == nil) != (name != "README.md") ||
			err == nil && string(got) != string(data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.files["adapter_config.json"] = []byte(`{"peft_type": "IA3"}`)
	h.hits = nil
	err := fetch(newLibrary(t, library.Limits{}), quick(Options{}), h.source(), nil)
	wantError(t, err, library.ErrUnusable)
	for _, hit := range h.hits {
		if strings.Contains(hit, "safetensors") {
			t.Errorf("asked for %s", hit)
		}
	}
	delete(h.files, "adapter_model.safetensors")
	wantError(t, fetch(newLibrary(t, library.Limits{}), quick(Options{}), h.source(), nil), library.ErrUnusable)
}
