package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"tgi/models/hf"
	"tgi/runtime/token"
)

// ggufTokenizers holds what models/testdata/make_gguf_tokenizers.py wrote.
const ggufTokenizers = "../../models/testdata/tokenizers"

// goldens holds what models/testdata/make_goldens.py wrote.
const goldens = "../../models/testdata/golden"

// text is one that other software has encoded.
type text struct {
	Text string   `json:"text"`
	IDs  []uint32 `json:"ids"`
}

// readTexts reads at least n of them.
func readTexts(t *testing.T, file string, n int) (list []text) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil || len(list) < n {
		t.Fatalf("%d texts: %v", len(list), err)
	}
	return list
}

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
			for _, g := range readTexts(t, filepath.Join(dir, "golden.json"), 300) {
				if got := tok.Encode(g.Text, false); !slices.Equal(got, g.IDs) {
					t.Errorf("%q:\n got %v\nwant %v", g.Text, got, g.IDs)
				}
			}
		})
	}
}

// TestSentencePiece: without a tokenizer.json a folder's tokenizer.model gives the tokens that sentencepiece gives;
// and, with tokens that were added, those of transformers, in its older and its newer way of treating spaces.
func TestSentencePiece(t *testing.T) {
	for _, c := range []struct {
		name, config, golden string
		special              bool
	}{
		{"pieces", "", "golden.json", false},
		{"pieces-without-prefix", "", "golden.json", false},
		{"pieces", "newer_config.json", "newer_golden.json", true},
		{"pieces-without-prefix", "newer_config.json", "newer_golden.json", true},
		{"pieces-without-prefix", "legacy_config.json", "legacy_golden.json", true},
	} {
		t.Run(c.name+" "+c.golden, func(t *testing.T) {
			dir, fsys := filepath.Join(ggufTokenizers, c.name), fstest.MapFS{}
			for name, from := range map[string]string{hf.ConfigFile: filepath.Join(goldens, "llama2", hf.ConfigFile),
				hf.SentencePieceFile:   filepath.Join(dir, hf.SentencePieceFile),
				hf.TokenizerConfigFile: filepath.Join(dir, c.config)} {
				data, err := os.ReadFile(from)
				if c.config == "" && name == hf.TokenizerConfigFile {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				fsys[name] = &fstest.MapFile{Data: data}
			}
			ck, err := hf.DescribeFS(fsys, c.name)
			if err != nil {
				t.Fatal(err)
			}
			tok, err := token.Load(ck.TokenizerJSON)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range readTexts(t, filepath.Join(dir, c.golden), 200) {
				if got := tok.Encode(g.Text, c.special); !slices.Equal(got, g.IDs) {
					t.Errorf("%q:\n got %v\nwant %v", g.Text, got, g.IDs)
				}
			}
		})
	}
}
