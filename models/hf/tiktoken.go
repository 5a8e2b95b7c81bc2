package hf

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
)

// Names of tokenizers in other forms, which are read if there is no tokenizer.json: Mistral's, and lists of byte
// strings and their ranks as the library tiktoken reads them. Llama 3's list is called as SentencePieceFile is.
const (
	TekkenFile       = "tekken.json"
	TiktokenFile     = "tiktoken.model"
	QwenTiktokenFile = "qwen.tiktoken"
)

// otherTokenizer makes tokenizer.json out of a tokenizer in another form; nil if there is none. It adds to t what that
// form says of special tokens.
func otherTokenizer(fsys fs.FS, t *TokenizerConfig) ([]byte, error) {
	for _, o := range []struct {
		file string
		read func(data []byte) ([]byte, error)
	}{
		{TekkenFile, func(b []byte) ([]byte, error) { return tekkenJSON(t, b) }},
		{SentencePieceFile, func(b []byte) ([]byte, error) {
			if _, _, ok := rankLine(firstLine(b)); ok {
				return llamaRanks.json(SentencePieceFile, t, b)
			}
			return sentencePieceJSON(fsys, t, b)
		}},
		{TiktokenFile, func(b []byte) ([]byte, error) { return kimiRanks.json(TiktokenFile, t, b) }},
		{QwenTiktokenFile, func(b []byte) ([]byte, error) { return qwenRanks.json(QwenTiktokenFile, t, b) }},
	} {
		st, err := fs.Stat(fsys, o.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if st.Size() > maxTokenizer {
			return nil, fmt.Errorf("%s: %w: has %d bytes, at most %d are allowed", o.file, ErrConfig, st.Size(), maxTokenizer)
		}
		data, err := readFile(fsys, o.file)
		if err != nil {
			return nil, err
		}
		return o.read(data)
	}
	return nil, nil
}

// ranked is a tokenizer by ranks.
type ranked struct {
	// pattern divides text into words; nfc composes characters first.
	pattern string
	nfc     bool
	// special are the tokens behind the list, unless the folder names them; begin and end are two of them.
	special    func() []string
	begin, end string
}

// Families whose files hold ranks alone.
var (
	llamaRanks = ranked{pattern: threeDigits, special: llamaSpecial, begin: "<|begin_of_text|>",
		end: "<|end_of_text|>"}
	qwenRanks = ranked{pattern: oneDigit, nfc: true, special: qwenSpecial, end: "<|endoftext|>"}
	kimiRanks = ranked{pattern: `[\p{Han}]+|` + kimiWords(`*`, `+`) + "|" + kimiWords(`+`, `*`) + `|\p{N}{1,3}` +
		others, special: func() []string { return nil }, begin: "[BOS]", end: "[EOS]"}
)

// kimiWords is a pattern of words that are not Chinese, with so many upper-case and lower-case letters.
func kimiWords(upper, lower string) string {
	return `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]` + upper +
		`[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]` + lower + contractions + `?`
}

// llamaSpecial are the special tokens of Llama 3, as its own code has them since version 3.1.
func llamaSpecial() []string {
	list := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
		"<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
		"<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"}
	return numberedTokens(list, 256, "<|reserved_special_token_%d|>", 2)
}

// qwenSpecial are those of Qwen's first version.
func qwenSpecial() []string {
	return numberedTokens([]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, 208, "<|extra_%d|>", 0)
}

// numberedTokens fills a list up with tokens of a form with their number.
func numberedTokens(list []string, n int, form string, first int) []string {
	for i := first; len(list) < n; i++ {
		list = append(list, fmt.Sprintf(form, i))
	}
	return list
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b[:min(len(b), 2*maxTokenBytes)], []byte("\n"))
	return line
}

// rankLine reads a line of bytes in base64 and their rank.
func rankLine(line []byte) (token []byte, rank int, ok bool) {
	code, number, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
	if !found {
		return nil, 0, false
	}
	token, err := base64.StdEncoding.DecodeString(string(code))
	rank, numErr := strconv.Atoi(string(number))
	return token, rank, err == nil && numErr == nil && len(token) > 0
}

// json makes tokenizer.json of a list of ranks.
func (r ranked) json(file string, t *TokenizerConfig, data []byte) ([]byte, error) {
	fail := func(format string, a ...any) ([]byte, error) {
		return nil, fmt.Errorf("%s: %w: %s", file, ErrConfig, fmt.Sprintf(format, a...))
	}
	vocab := map[string]int{}
	number, largest := 0, -1
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		token, rank, ok := rankLine(line)
		switch {
		case !ok:
			return fail("line %d is %s, want bytes in base64, a space and a rank", number, quoted(string(line)))
		case rank < 0 || rank >= maxTokens || len(token) > maxTokenBytes:
			return fail("line %d: rank %d of %d bytes, want a rank below %d and %d bytes at most", number, rank, len(token),
				maxTokens, maxTokenBytes)
		}
		text := byteLevelText(token)
		if _, twice := vocab[text]; twice {
			return fail("line %d: its bytes are also in a line before", number)
		}
		vocab[text], largest = rank, max(largest, rank)
	}
	added := map[int]AddedToken{}
	if len(t.Added) > 0 {
		maps.Copy(added, t.Added)
	} else {
		for i, text := range r.special() {
			added[largest+1+i] = AddedToken{Content: text, Special: true}
		}
	}
	t.setDefaults(r.begin, r.end, added)
	return rankedJSON(vocab, added, r.pattern, r.nfc, t)
}

// setDefaults names the tokens that begin and end texts, if no file does and they are among the added ones.
func (t *TokenizerConfig) setDefaults(begin, end string, added map[int]AddedToken) {
	if t.Tokens == nil {
		t.Tokens = map[string]string{}
	}
	texts := map[string]bool{}
	for _, a := range added {
		texts[a.Content] = true
	}
	for key, text := range map[string]string{"bos_token": begin, "eos_token": end} {
		if t.Tokens[key] == "" && texts[text] {
			t.Tokens[key] = text
		}
	}
	t.nameTokens()
}

// ByteAlphabet are the characters that stand for the bytes 0 to 255 in byte-level vocabularies: printable ones stand
// for themselves, the others follow from U+0100 on.
var ByteAlphabet = func() (t [256]rune) {
	next := rune(256)
	for b := range t {
		if t[b] = rune(b); b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			t[b] = next
			next++
		}
	}
	return t
}()

func byteLevelText(token []byte) string {
	out := make([]rune, len(token))
	for i, b := range token {
		out[i] = ByteAlphabet[b]
	}
	return string(out)
}

// rankedJSON is tokenizer.json of a vocabulary whose ids are ranks, in the alphabet of bytes.
func rankedJSON(vocab map[string]int, added map[int]AddedToken, pattern string, nfc bool, t *TokenizerConfig) ([]byte,
	error) {
	list := []map[string]any{}
	v := &ggufVocab{}
	for _, id := range slices.Sorted(maps.Keys(added)) {
		a := added[id]
		if a.Content == "" || id < 0 || id >= maxTokens+maxAdded {
			continue
		}
		list = append(list, map[string]any{"id": id, "content": a.Content, "special": a.Special, "single_word": false,
			"lstrip": false, "rstrip": false, "normalized": false})
		for len(v.tokens) <= id {
			v.tokens = append(v.tokens, "")
		}
		v.tokens[id] = a.Content
	}
	var normalizer any
	if nfc {
		normalizer = map[string]any{"type": "NFC"}
	}
	add := t.AddBOS == nil || *t.AddBOS
	return json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": list, "normalizer": normalizer,
		"pre_tokenizer": map[string]any{"type": "Sequence",
			"pretokenizers": []any{split(pattern), byteLevelStep(false)}},
		"post_processor": postProcessor(v, map[bool]string{true: t.BOS}[add],
			map[bool]string{true: t.EOS}[t.AddEOS]),
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
			"use_regex": true},
		"model": map[string]any{"type": "Tiktoken", "vocab": vocab},
	})
}
