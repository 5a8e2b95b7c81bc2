package hf

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzOtherTokenizers: whatever a tokenizer in another form holds, reading it ends in an error that wraps ErrConfig, or
// in a file that is JSON.
func FuzzOtherTokenizers(f *testing.F) {
	names := []string{TekkenFile, SentencePieceFile, TiktokenFile, QwenTiktokenFile}
	for i, name := range names {
		files, err := filepath.Glob("../testdata/othertokenizers/*/" + name)
		if err != nil || len(files) == 0 {
			f.Fatalf("no %s: %v", name, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, data[:min(len(data), 4000)])
			f.Add(i, data)
		}
	}
	f.Add(0, []byte(`{"config":{"pattern":"a","default_vocab_size":3,"default_num_special_tokens":1},"vocab":[`+
		`{"rank":0,"token_bytes":"AA=="},{"rank":1,"token_bytes":"AQ=="}],"special_tokens":[{"rank":0,"token_str":"x"}]}`))
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		name := names[uint(which)%uint(len(names))]
		var c TokenizerConfig
		out, err := otherTokenizer(fstest.MapFS{name: {Data: data}}, &c)
		switch {
		case err != nil && !errors.Is(err, ErrConfig):
			t.Fatalf("error %v does not wrap ErrConfig", err)
		case err == nil && !json.Valid(out):
			t.Fatalf("not JSON: %.200s", out)
		}
	})
}

// TestOtherTokenizersRefuse: errors name the file, the place and the bound.
func TestOtherTokenizersRefuse(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{TekkenFile, `{}`, "tekken.json: unusable model configuration: config.pattern is missing"},
		{TekkenFile, `{"config":{"pattern":"a","default_vocab_size":-1}}`,
			"config.default_vocab_size: -1 is not from 0 to 1048576"},
		{TekkenFile, `{"config":{"pattern":"a","default_vocab_size":9,"default_num_special_tokens":99999}}`,
			"config.default_num_special_tokens: 99999 is not from 0 to 65536"},
		{TekkenFile, `{"config":{"pattern":"a","default_vocab_size":1}}`, "vocab: has 0 entries, want 1 at least"},
		{TekkenFile, `{"config":{"pattern":"a","default_vocab_size":1},"vocab":[{"rank":1,"token_bytes":"AA=="}]}`,
			"vocab: entry 0 has rank 1 and 1 bytes, want its place"},
		{TiktokenFile, "AA== 0\nAA== 1\n", "line 2: its bytes are also in a line before"},
		{TiktokenFile, "AA==\n", `line 1 is "AA==", want bytes in base64, a space and a rank`},
		{TiktokenFile, "AA== 99999999\n", "line 1: rank 99999999 of 1 bytes, want a rank below 1048576"},
		{SentencePieceFile, "", "tokenizer.model: unusable model configuration: has no pieces"},
		{SentencePieceFile, "\x0a\x03\x0a\x01a", "has no unknown piece"},
		{SentencePieceFile, "\x0a\x02\x0a\x00", "piece 0 has 0 bytes, want 1 to 1024"},
		{SentencePieceFile, "\x0a\x05\x0a\x01a\x18\x02\x12\x02\x18\x03", "is neither Unigram nor byte-pair encoding, but kind 3"},
		{SentencePieceFile, "\x0a\xff\xff\xff\xff\x0fa", "tokenizer.model"},
	} {
		_, err := otherTokenizer(fstest.MapFS{c.file: {Data: []byte(c.text)}}, &TokenizerConfig{})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v, want %s", c.file, c.text, err, c.want)
		}
	}
}
