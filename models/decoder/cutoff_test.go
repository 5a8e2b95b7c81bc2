//go:build unix

package decoder

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/tensors"
)

// TestCutOffWhileRead: a file that is truncated while it is converted is an error, in each format.
func TestCutOffWhileRead(t *testing.T) {
	for _, w := range []models.Weights{models.FP32, models.Int4, models.Stored} {
		at := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(at, writeGGUF("Q4_K", "Q6_K"), 0o644); err != nil {
			t.Fatal(err)
		}
		ck, err := hf.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(at, 1<<14); err != nil {
			t.Fatal(err)
		}
		if _, err := Build(ck, io.Discard, Options{Weights: w}); !errors.Is(err, tensors.ErrFormat) {
			t.Errorf("%s: %v", w, err)
		}
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	}
}
