package gguf

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"tgi/models/hf"
	"tgi/runtime/token"
)

// others holds what models/testdata/make_other_tokenizers.py wrote.
const others = "../../models/testdata/othertokenizers"

// otherTokenizer opens the tokenizer of a folder without tokenizer.json.
func otherTokenizer(t *testing.T, name string) (*token.Tokenizer, *hf.Checkpoint) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(goldens, "llama2", hf.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{hf.ConfigFile: {Data: config}}
	files, err := filepath.Glob(filepath.Join(others, name, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fsys[filepath.Base(file)] = &fstest.MapFile{Data: data}
	}
	ck, err := hf.DescribeFS(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.Load(ck.TokenizerJSON)
	if err != nil {
		t.Fatal(err)
	}
	return tok, ck
}

// TestOtherTokenizers: tokenizers in the forms of SentencePiece, Mistral and tiktoken give the tokens that their own
// libraries give, of the strings in testdata or of those in the folder that OTHER_TOKENIZERS names; decoded they are
// the text again, as it is normalized.
func TestOtherTokenizers(t *testing.T) {
	entries, err := os.ReadDir(others)
	if err != nil || len(entries) < 10 {
		t.Fatalf("%d tokenizers: %v", len(entries), err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			tok, _ := otherTokenizer(t, e.Name())
			from := others
			if dir := os.Getenv("OTHER_TOKENIZERS"); dir != "" {
				from = dir
			}
			packed, err := os.ReadFile(filepath.Join(from, e.Name(), "golden.json.gz"))
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			var rows []struct {
				Text, Decoded string
				IDs           []uint32
			}
			if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 300 {
				t.Fatalf("%d rows: %v", len(rows), err)
			}
			bad := 0
			for _, row := range rows {
				got := tok.Encode(row.Text, false)
				// SentencePiece shows unknown characters in its own way.
				plain := !strings.Contains(row.Decoded, "\u2047") && !strings.Contains(row.Decoded, "\uFFFD")
				text := tok.Decode(got, true)
				checkPlaces(t, tok, row.Text)
				if slices.Equal(got, row.IDs) && (!plain || text == row.Decoded) {
					continue
				}
				t.Errorf("%q:\n got %v %q\nwant %v %q", row.Text, got, text, row.IDs, row.Decoded)
				if bad++; bad == 5 {
					t.Fatal("too many differences")
				}
			}
			t.Logf("%d strings", len(rows))
		})
	}
}

// TestOtherTokenizersLong: the time of a text grows with its length, however few words it has.
func TestOtherTokenizersLong(t *testing.T) {
	const size = 256 << 10
	for _, name := range []string{"bare", "fallback", "kimi", "llama", "nmt-nfkc", "pairs", "qwen", "tekken"} {
		tok, _ := otherTokenizer(t, name)
		for _, of := range []string{"a", "▁", " ", "é\u0301", "中", "a ", "1"} {
			start := time.Now()
			n := len(tok.Encode(strings.Repeat(of, size/len(of)), false))
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: %d bytes of %q, %d tokens, took %v", name, size, of, n, took)
			} else if took > time.Second {
				t.Logf("%s: %q took %v", name, of, took)
			}
		}
	}
}

// checkPlaces checks that tokens lie in a text in order, and hold what is there.
func checkPlaces(t *testing.T, tok *token.Tokenizer, text string) {
	t.Helper()
	chars, last := []rune(text), 0
	for _, p := range tok.EncodeOffsets(text, false) {
		if p.Start < last || p.End < p.Start || p.End > len(chars) || p.Text != string(chars[p.Start:p.End]) {
			t.Fatalf("%q: token %d is at %d to %d, %q, after %d", text, p.ID, p.Start, p.End, p.Text, last)
		}
		last = p.Start
	}
}

// TestOtherSpecialTokens: the special tokens are those of the reference.
func TestOtherSpecialTokens(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ids        []uint32
		begin, end string
	}{
		{"tekken", "<s>[INST]a[/INST]</s>", []uint32{1, 3, 197, 4, 2}, "<s>", "</s>"},
		{"tekken-named", "[THINK]a[/THINK]<SPECIAL_99>", []uint32{5, 197, 6, 99}, "<s>", "</s>"},
		{"llama", "<|begin_of_text|>a<|eot_id|><|reserved_special_token_245|>", []uint32{900, 97, 909, 1155},
			"<|begin_of_text|>", "<|end_of_text|>"},
		{"qwen", "<|im_start|>a<|im_end|><|endoftext|><|extra_204|>", []uint32{901, 97, 902, 900, 1107}, "",
			"<|endoftext|>"},
		{"kimi", "[BOS]a<|im_end|>", []uint32{10000, 97, 10002}, "[BOS]", "[EOS]"},
		{"fallback", "<|user|>", []uint32{3}, "", ""},
	} {
		tok, ck := otherTokenizer(t, c.name)
		if got := tok.Encode(c.text, false); !slices.Equal(got, c.ids) {
			t.Errorf("%s: %q is %v, want %v", c.name, c.text, got, c.ids)
		}
		if ck.Tokenizer.BOS != c.begin || ck.Tokenizer.EOS != c.end {
			t.Errorf("%s: texts begin with %q and end with %q, want %q and %q", c.name, ck.Tokenizer.BOS, ck.Tokenizer.EOS,
				c.begin, c.end)
		}
		// In what a request says they are text.
		for _, id := range tok.EncodeSpans(c.text, []token.Span{{Start: 0, End: len(c.text)}}) {
			if tok.Special(id) && id != 0 {
				t.Errorf("%s: %q as data has token %d", c.name, c.text, id)
			}
		}
	}
}
