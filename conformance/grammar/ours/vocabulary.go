package main

import (
	"encoding/json"
	"fmt"
	"os"

	"tgi/sdk/abi"
)

// token is what one id stands for.
type token struct {
	text         []byte
	special, end bool
}

// vocabulary is the tokens of a tokenizer.json with byte-level BPE, by id.
type vocabulary []token

// Size implements plugins.Vocabulary.
func (v vocabulary) Size() int { return len(v) }

// Bytes implements plugins.Vocabulary.
func (v vocabulary) Bytes(id uint32) []byte { return v[id].text }

// Flags implements plugins.Vocabulary.
func (v vocabulary) Flags(id uint32) (flags uint32) {
	if v[id].special {
		flags |= abi.TokenSpecial
	}
	if v[id].end {
		flags |= abi.TokenEnd
	}
	return flags
}

// Encode implements plugins.Vocabulary. Guests that compile grammars do not ask for it.
func (v vocabulary) Encode(string) []uint32 { return nil }

// EncodeData implements plugins.Vocabulary, likewise.
func (v vocabulary) EncodeData(string) []uint32 { return nil }

func readVocabulary(path string) (vocabulary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Model struct {
			Vocab map[string]uint32 `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID      uint32 `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	size := uint32(0)
	for _, id := range file.Model.Vocab {
		size = max(size, id+1)
	}
	for _, a := range file.Added {
		size = max(size, a.ID+1)
	}
	v, letters := make(vocabulary, size), alphabet()
	for text, id := range file.Model.Vocab {
		for _, r := range text {
			b, ok := letters[r]
			if !ok {
				return nil, fmt.Errorf("%s: token %d, %q, is not written in the letters of byte-level BPE", path, id,
					text)
			}
			v[id].text = append(v[id].text, b)
		}
	}
	for _, a := range file.Added {
		v[a.ID] = token{text: []byte(a.Content), special: a.Special}
	}
	return v, nil
}

// alphabet is GPT-2's letters for bytes: printable ones stand for themselves, all others follow from U+0100 on.
func alphabet() map[rune]byte {
	letters, next := map[rune]byte{}, rune(256)
	for b := range rune(256) {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			letters[b] = byte(b)
		} else {
			letters[next] = byte(b)
			next++
		}
	}
	return letters
}
