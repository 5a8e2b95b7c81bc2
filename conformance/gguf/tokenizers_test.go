package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models/hf"
	"tgi/runtime/token"
)

// ggufTokenizers holds what models/testdata/make_gguf_tokenizers.py wrote.
const ggufTokenizers = "../../models/testdata/tokenizers"

// TestTokenizersOfGGUF: the tokenizer of a file in the GGUF format gives the tokens that transformers and sentencepiece
// give with the original, and the text that they were.
func TestTokenizersOfGGUF(t *testing.T) {
	entries, err := os.ReadDir(ggufTokenizers)
	if err != nil || len(entries) < 7 {
		t.Fatalf("%d tokenizers: %v", len(entries), err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			dir := filepath.Join(ggufTokenizers, e.Name())
			ck, err := hf.Describe(filepath.Join(dir, "model.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			tok, err := token.Load(ck.TokenizerJSON)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			var golden []struct {
				Text string   `json:"text"`
				IDs  []uint32 `json:"ids"`
			}
			if err := json.Unmarshal(data, &golden); err != nil || len(golden) < 300 {
				t.Fatalf("%d texts: %v", len(golden), err)
			}
			for _, g := range golden {
				if got := tok.Encode(g.Text, false); !slices.Equal(got, g.IDs) {
					t.Errorf("%q:\n got %v\nwant %v", g.Text, got, g.IDs)
				}
			}
		})
	}
}
