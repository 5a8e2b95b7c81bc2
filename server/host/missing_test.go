package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestMissingModel: a path without a model is an error that says what is there instead.
func TestMissingModel(t *testing.T) {
	dir := t.TempDir()
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		filepath.Join(dir, "none"): "there is no folder or file " + dir,
		dir:                        "is empty: a model has a config.json",
		other:                      "holds no model: it has no config.json and no file *.gguf",
	} {
		_, err := describe(at)
		if err == nil {
			t.Fatalf("%s is a model", at)
		}
		c := config.Default()
		c.Model.Path = at
		if err = pathError(c, err); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "stat ") {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
}
