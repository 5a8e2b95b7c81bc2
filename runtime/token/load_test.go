package token

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// small is a whole file with little in it.
const small = `{"version":"1.0","truncation":null,"padding":null,
	"added_tokens":[{"id":4,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
	"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
	"model":{"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"ab":3},"merges":["a b"]}}`

func TestLoadErrors(t *testing.T) {
	split := func(pattern string) string {
		b, _ := json.Marshal(map[string]any{"type": "Split", "pattern": map[string]string{"Regex": pattern},
			"behavior": "Isolated", "invert": false})
		return string(b)
	}
	added := func(old, new string) string {
		return strings.Replace(`[{"id":4,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}]`, old, new, 1)
	}
	model := func(old, new string) string {
		return strings.Replace(`{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`, old, new, 1)
	}
	for _, c := range []struct{ key, value, want string }{
		{"version", `"2.0"`, `version: "2.0" is not "1.0"`},
		{"model", model("BPE", "Neural"),
			`model.type: "Neural" is not supported, only "BPE", "Unigram", "WordLevel" and "WordPiece"`},
		{"model", model("BPE", "Unigram"), `model.vocab: json: cannot unmarshal object`},
		{"model", `{"type":"Unigram","vocab":[["<unk>",0.0]]}`, `model.unk_id is missing`},
		{"model", `{"type":"Unigram","unk_id":1,"vocab":[["<unk>",0.0]]}`,
			`model.unk_id: 1 is not below 1, the size of the vocabulary`},
		{"model", `{"type":"Unigram","unk_id":0,"vocab":[["<unk>"]]}`, `"] is not a token and its score`},
		{"model", `{"type":"Unigram","unk_id":0,"vocab":[["<unk>",null]]}`, `is not a token and its score`},
		{"model", `{"type":"Unigram","unk_id":0,"vocab":[["` + strings.Repeat("a", 1025) + `",0.0]]}`,
			`model.vocab: token 0 has 1025 bytes, at most 1024 are allowed`},
		{"model", `{"type":"WordPiece","vocab":{"a":0}}`, `model.unk_token: "[UNK]" is not in the vocabulary`},
		{"model", `{"type":"WordPiece","max_input_chars_per_word":-1,"vocab":{"[UNK]":0}}`,
			`model.max_input_chars_per_word: -1 is negative`},
		{"model", `{"type":"WordLevel","unk_token":"b","vocab":{"a":0}}`, `model.unk_token: "b" is not in the vocabulary`},
		{"model", `{"vocab":null}`, `model.vocab is missing`},
		{"model", `{"merges":null}`, `model.merges is missing`},
		{"model", model(`"type"`, `"dropout":0.1,"type"`), `model.dropout: 0.1 is not supported`},
		{"model", model(`"type"`, `"continuing_subword_prefix":"##","type"`),
			`model.merges[0]: "b" is shorter than continuing_subword_prefix "##"`},
		{"model", model(`"type"`, `"continuing_subword_prefix":"é","type"`),
			`model.continuing_subword_prefix: "é" is not supported, only ASCII`},
		{"model", model(`"type"`, `"end_of_word_suffix":"</w>","byte_fallback":true,"type"`),
			`model.byte_fallback is not supported beside continuing_subword_prefix "" and end_of_word_suffix "</w>"`},
		{"model", model(`"type"`, `"unk_token":"<unk>","type"`), `model.unk_token: "<unk>" is not in the vocabulary`},
		{"model", model(`"a b"`, `"a b b"`), `model.merges: "a b b" is not two tokens and a space`},
		{"model", model(`"a b"`, `"ab"`), `model.merges: "ab" is not two tokens and a space`},
		{"model", model(`"a b"`, `["a"]`), `model.merges: ["a"] is not a pair`},
		{"model", model(`"a b"`, `"b a"`), `model.merges[0]: "b" and "a" or what they make is not in the vocabulary`},
		{"model", model(`"ab":2`, `"ab":4000000000`), `model.vocab: id 4000000000 of "ab" leaves too large a gap`},
		{"model", model(`"ab":2`, `"ab":1`), `model.vocab: id 1 has two tokens`},
		{"model", model(`"ab":2`, `"ab":-1`), `cannot unmarshal number -1`},
		{"model", `{"type":"Tiktoken","vocab":{"a":0}}`, `model.vocab: byte 0x00 has no token`},
		{"model", `{"type":"Tiktoken","vocab":{"漢":0}}`, `model.vocab: token 0 is "漢", want bytes`},
		{"model", `{"type":"SentencePiece","vocab":[["a",0,1,1]],"unk_id":0}`, `is not a token and its score`},
		{"normalizer", `{"type":"SentencePiece","user_defined_symbols":["` + strings.Repeat("a", 2000) + `"]}`,
			`normalizer.user_defined_symbols: model.vocab: token 0 has 2000 bytes`},
		{"normalizer", `{"type":"SentencePiece","precompiled_charsmap":"AAAAAA=="}`, `has an empty trie`},
		{"added_tokens", added(`"lstrip":false,`, ``), `added_tokens[0]: key "lstrip" is missing`},
		{"added_tokens", added(`"content":"<s>",`, ``), `added_tokens[0]: key "content" is missing`},
		{"normalizer", `{"type":"BertNormalizer"}`, `normalizer: key "clean_text" is missing`},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Other"}]}`,
			`normalizer.normalizers[1].type: "Other" is not supported`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"?"}`,
			`normalizer.precompiled_charsmap: illegal base64 data`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"AQ=="}`,
			`normalizer.precompiled_charsmap: has 1 bytes, want the size of a trie first`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"/////w=="}`,
			`has a trie of 4294967292 bytes in 0`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"AAAAAA=="}`, `has an empty trie`},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString(
			append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte("a"), 5000)...)) + `"}`,
			`normalizer: Precompiled could make a text more than 4096 times longer`},
		{"normalizer", `{"type":"Sequence"}`, `normalizer: key "normalizers" is missing`},
		{"normalizer", `{"type":"Strip","strip_left":true}`, `normalizer: key "strip_right" is missing`},
		{"normalizer", `{"type":"Replace","pattern":{"String":""},"content":"x"}`,
			`normalizer.pattern.String: "" matches nothing`},
		{"normalizer", `{"type":"Replace","pattern":{},"content":"x"}`, `normalizer.pattern: neither String nor Regex`},
		{"normalizer", strings.Repeat(`{"type":"Sequence","normalizers":[`, 30) + strings.Repeat(`]}`, 30),
			`nested more than 8 deep`},
		{"normalizer", `{"type":"Sequence","normalizers":[` +
			strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 40) + `{"type":"NFC"}]}`,
			`normalizer: Replace could make a text more than 4096 times longer`},
		{"normalizer", `{"type":"Replace","pattern":{"Regex":"a"},"content":"` + strings.Repeat("a", 5000) + `"}`,
			`normalizer: Replace could make a text more than 4096 times longer`},
		{"normalizer", `{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"NFC"},`, 64) +
			`{"type":"NFC"}]}`, `normalizer.normalizers: 65 entries, at most 64`},
		{"pre_tokenizer", `{"type":"Other"}`, `pre_tokenizer.type: "Other" is not supported`},
		{"pre_tokenizer", `{"type":"CharDelimiterSplit","delimiter":"ab"}`,
			`pre_tokenizer.delimiter: "ab" is not one character`},
		{"pre_tokenizer", `{"type":"FixedLength","length":0}`, `pre_tokenizer.length: 0 is not positive`},
		{"pre_tokenizer", `{"type":"ByteLevel"}`, `pre_tokenizer: key "add_prefix_space" is missing`},
		{"pre_tokenizer", `{"type":"Split","pattern":{"String":"a"},"behavior":"Sideways","invert":false}`,
			`pre_tokenizer.behavior: "Sideways" is not supported`},
		{"pre_tokenizer", split(`(`), `pre_tokenizer.pattern.Regex: pattern "("`},
		{"pre_tokenizer", split(`a++`), `invalid nested repetition operator`},
		{"pre_tokenizer", split(`\w+`), `"\\w" is not supported here`},
		{"pre_tokenizer", split(`[a[b]]`), `"[" is not supported here`},
		{"pre_tokenizer", split(`[\p{L}&&[a-z]]`), `"&&" is not supported here`},
		{"pre_tokenizer", split(`(?i)a`), `"(?i" is not supported here`},
		{"pre_tokenizer", split(`a{,3}`), `"{," is not supported here`},
		{"pre_tokenizer", split(`[]a]`), `"[]" is not supported here`},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"__","prepend_scheme":"first"}`,
			`pre_tokenizer.replacement: "__" is not one character`},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`,
			`pre_tokenizer.prepend_scheme: "last" is not supported`},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false}`,
			`add_prefix_space false contradicts prepend_scheme`},
		{"post_processor", `{"type":"Other"}`, `post_processor.type: "Other" is not supported`},
		{"post_processor", `{"type":"BertProcessing","sep":["a",1]}`, `post_processor: key "cls" is missing`},
		{"post_processor", `{"type":"BertProcessing","sep":["a",1],"cls":["b"]}`, `["b"] is not a token and its id`},
		{"post_processor", `{"type":"BertProcessing","sep":["a",1],"cls":["b",99999999]}`,
			`special token id 99999999 is not in the vocabulary`},
		{"pre_tokenizer", `{"type":"Punctuation","behavior":"Sometimes"}`, `behavior: "Sometimes" is not supported`},
		{"post_processor", `{"type":"TemplateProcessing"}`, `post_processor: key "single" is missing`},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}]}`,
			`post_processor.single[0].Sequence.id: "B" is not "A"`},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}}]}`,
			`post_processor.single[0].SpecialToken.id: "<x>" is not in special_tokens`},
		{"post_processor", `{"type":"TemplateProcessing","single":[{}]}`,
			`post_processor.single[0]: neither SpecialToken nor Sequence`},
		{"post_processor",
			`{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[99]}}}`,
			`post_processor: special token id 99 is not in the vocabulary`},
		{"post_processor",
			`{"type":"Sequence","processors":[{"type":"TemplateProcessing","single":[]},{"type":"TemplateProcessing","single":[]}]}`, `post_processor.processors[1]: a second TemplateProcessing is not supported`},
		{"decoder", `{"type":"Other"}`, `decoder.type: "Other" is not supported`},
		{"decoder", `{"type":"WordPiece"}`, `decoder: key "prefix" is missing`},
		{"decoder", `{"type":"BPEDecoder","suffix":""}`, `decoder.suffix: an empty one is not supported`},
		{"decoder", `{"type":"CTC","pad_token":"","word_delimiter_token":"|"}`, `an empty pad_token or word_delimiter_token`},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"WordPiece","prefix":"##","cleanup":true}]}`,
			`decoder: WordPiece, BPEDecoder or CTC as number 1 is not the first, which is not supported`},
		{"decoder", `{"type":"Replace","pattern":{"Regex":"a"},"content":""}`,
			`decoder.pattern: only a String that is not empty is supported here`},
		{"decoder", `{"type":"Strip","content":"xy","start":0,"stop":0}`, `decoder.content: "xy" is not one character`},
		{"decoder", `{"type":"Strip","content":"x","start":-1,"stop":0}`,
			`decoder: start and stop must be 0 to 1024, not -1`},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteLevel"}]}`,
			`decoder: ByteLevel as number 1 comes after the tokens were joined`},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"ByteFallback"}]}`,
			`decoder: ByteFallback as number 1 comes after the tokens were joined`},
	} {
		_, err := Load(withParts(t, []byte(small), map[string]json.RawMessage{c.key: json.RawMessage(c.value)}))
		switch {
		case err == nil:
			t.Errorf("%s %s: no error, want %q", c.key, c.value, c.want)
		case !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s %s:\n got %q\nwant %q", c.key, c.value, err, c.want)
		}
	}
}

func TestLoadBroken(t *testing.T) {
	for _, in := range []string{"", "null", "[]", "{", small[:len(small)-1], small + "}"} {
		if _, err := Load([]byte(in)); !errors.Is(err, ErrFormat) {
			t.Errorf("Load(%.20q) = %v, want ErrFormat", in, err)
		}
	}
}

// Two added tokens that look the same once normalized can't be told apart.
func TestLoadSameAddedTokens(t *testing.T) {
	token := func(content string) string {
		return `{"id":0,"content":"` + content +
			`","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}`
	}
	for _, c := range []struct{ tokens, want string }{
		{token("New") + "," + token("new"), `content "new" is the same as that of "New" once normalized`},
		{token("  "), `content "  " is empty once normalized`},
	} {
		_, err := Load(withParts(t, []byte(small), map[string]json.RawMessage{
			"normalizer":   json.RawMessage(`{"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":true}]}`),
			"added_tokens": json.RawMessage("[" + c.tokens + "]"),
		}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestLoadSmall(t *testing.T) {
	tok, err := Load([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode(tok.Encode("abc<s>xb", true), false); got != "ab c <s> b" { // x is unknown and vanishes
		t.Errorf("got %q", got)
	}
	if n := tok.VocabSize(); n != 5 {
		t.Errorf("VocabSize = %d, want 5", n)
	}
}

// FuzzLoad: whatever the file says, Load returns, and what it returns works.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(small))
	for _, parts := range []map[string]string{
		{"normalizer": `{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":"b*"},"content":"é"},{"type":"Strip","strip_left":true,"strip_right":false}]}`},
		{"pre_tokenizer": `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"String":"a"},"behavior":"MergedWithNext","invert":true},{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":true}]}`},
		{"pre_tokenizer": `{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}`,
			"decoder": `{"type":"Metaspace","replacement":"▁"}`},
		{"decoder": `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"ab"},"content":"a"},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]}`,
			"post_processor": `{"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[4]}}}]}`},
		{"model": `{"unk_token":"a","fuse_unk":true,"byte_fallback":true,"ignore_merges":true,"vocab":{"a":0,"<0x0A>":1,"é":2,"aa":3},"merges":[["a","a"]]}`},
		{"normalizer": `{"type":"SentencePiece","add_dummy_prefix":true,"remove_extra_whitespaces":true,"escape_whitespaces":true,"user_defined_symbols":["ab "]}`,
			"model": `{"type":"SentencePiece","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0,2],["a",-1,1],["ab ",0,4],["<0x41>",0,6]]}`},
		{"model": `{"type":"Tiktoken","vocab":{"a":0,"ab":1}}`,
			"pre_tokenizer": `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`},
	} {
		raw := make(map[string]json.RawMessage)
		for k, v := range parts {
			raw[k] = json.RawMessage(v)
		}
		f.Add(withParts(f, []byte(small), raw))
	}
	for _, name := range []string{"bert", "clip", "gpt1", "pieces", "prefixed", "rules", "word-level"} {
		f.Add(unzip(f, "kinds/"+name+".json.gz"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tok, err := Load(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v is not ErrFormat", err)
			}
			return
		}
		const text = "ab <s> 12\té aab\U0001F600▁ \xffx"
		for _, p := range tok.EncodeOffsets(text, true) {
			tok.Token(p.ID)
		}
		ids := tok.Encode(text, false)
		tok.Decode(ids, true)
		s := tok.Stream(ids)
		s.Next(0)
		s.Flush()
	})
}
