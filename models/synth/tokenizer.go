package synth

import (
	"fmt"

	"tgi/models/hf"
)

// Texts of the special tokens.
const (
	bosText = "<|bos|>"
	eosText = "<|eos|>"
)

// specials maps the ids of special tokens to their texts.
func (s shape) specials() map[int]string {
	out := map[int]string{s.bos: bosText}
	for i, id := range s.eos {
		switch {
		case id == s.bos: // some models end with the token they begin with
		case i == 0:
			out[id] = eosText
		default:
			out[id] = fmt.Sprintf("<|eos_%d|>", i)
		}
	}
	return out
}

// tokenizer returns the content of tokenizer.json: byte-level BPE without
// merges. Bytes take the first free ids; ids above them are words that no text
// encodes to.
func (s shape) tokenizer() map[string]any {
	specials := s.specials()
	vocab := make(map[string]int, s.vocab)
	var added []map[string]any
	alphabet := hf.ByteAlphabet
	word := 0
	for id := range s.vocab {
		if text, ok := specials[id]; ok {
			vocab[text] = id
			added = append(added, map[string]any{"id": id, "content": text, "special": true,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
			continue
		}
		if word < len(alphabet) {
			vocab[string(alphabet[word])] = id
		} else {
			vocab[madeUp(word-len(alphabet))] = id
		}
		word++
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": byteLevel, "post_processor": byteLevel, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocab, "merges": []string{}},
	}
}

// tokenizerConfig returns the content of tokenizer_config.json.
func (s shape) tokenizerConfig() map[string]any {
	return map[string]any{
		"bos_token": bosText, "eos_token": eosText, "add_bos_token": false, "model_max_length": s.maxPositions,
		"tokenizer_class": "PreTrainedTokenizerFast",
		"chat_template": "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}" +
			"{% if add_generation_prompt %}assistant: {% endif %}",
	}
}

// madeUp returns a word of consonants and vowels in turn, led by the character
// for a space; different for each n.
func madeUp(n int) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	word := []rune{'Ġ'}
	for i := 0; i < 3 || n > 0; i++ {
		word = append(word, rune(consonants[n%len(consonants)]))
		n /= len(consonants)
		word = append(word, rune(vowels[n%len(vowels)]))
		n /= len(vowels)
	}
	return string(word)
}
