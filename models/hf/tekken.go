package hf

import (
	"encoding/json"
	"fmt"
)

// tekkenFile is what is read of tekken.json.
type tekkenFile struct {
	Config struct {
		Pattern  string `json:"pattern"`
		Size     int    `json:"default_vocab_size"`
		Specials int    `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"`
	} `json:"vocab"`
	Special []struct {
		Rank int    `json:"rank"`
		Text string `json:"token_str"`
	} `json:"special_tokens"`
}

// tekkenSpecial are the special tokens of files that do not list them, which are older than version 8.
var tekkenSpecial = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
	"[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]",
	"[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

// tekkenJSON makes tokenizer.json out of Mistral's tekken.json: special tokens come first, and those without a name are
// <SPECIAL_n>; of the list of byte strings as many follow as make up the size of the vocabulary.
func tekkenJSON(t *TokenizerConfig, data []byte) ([]byte, error) {
	fail := func(format string, a ...any) ([]byte, error) {
		return nil, fmt.Errorf("%s: %w: %s", TekkenFile, ErrConfig, fmt.Sprintf(format, a...))
	}
	var f tekkenFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fail("%v", err)
	}
	size, specials := f.Config.Size, f.Config.Specials
	switch {
	case f.Config.Pattern == "":
		return fail("config.pattern is missing")
	case specials < 0 || specials > maxAdded:
		return fail("config.default_num_special_tokens: %d is not from 0 to %d", specials, maxAdded)
	case size < specials || size > maxTokens:
		return fail("config.default_vocab_size: %d is not from %d to %d", size, specials, maxTokens)
	case size-specials > len(f.Vocab):
		return fail("vocab: has %d entries, want %d at least", len(f.Vocab), size-specials)
	}
	added := map[int]AddedToken{}
	for i := range specials {
		text := fmt.Sprintf("<SPECIAL_%d>", i)
		if f.Special == nil && i < len(tekkenSpecial) {
			text = tekkenSpecial[i]
		}
		added[i] = AddedToken{Content: text, Special: true}
	}
	for i, s := range f.Special {
		if s.Rank < 0 || s.Rank >= specials || s.Text == "" {
			return fail("special_tokens: entry %d is %s of rank %d, want a text and a rank below %d", i, quoted(s.Text),
				s.Rank, specials)
		}
		added[s.Rank] = AddedToken{Content: s.Text, Special: true}
	}
	vocab := make(map[string]int, size)
	for i, token := range f.Vocab[:size-specials] {
		text := byteLevelText(token.Bytes)
		_, twice := vocab[text]
		if token.Rank != i || len(token.Bytes) == 0 || len(token.Bytes) > maxTokenBytes || twice {
			return fail("vocab: entry %d has rank %d and %d bytes, want its place, and 1 to %d bytes that no other has", i,
				token.Rank, len(token.Bytes), maxTokenBytes)
		}
		vocab[text] = specials + i
	}
	t.setDefaults("<s>", "</s>", added)
	return rankedJSON(vocab, added, f.Config.Pattern, false, t)
}
