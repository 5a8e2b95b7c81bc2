// Command picture is a grammar plugin whose sources are patterns: # matches a
// digit, @ a lower-case letter, and any other character matches itself. The plugin
// computes at each step which tokens may come next.
package main

import (
	"errors"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/steps"
)

const longest = 64

func init() {
	plugin.Describe(plugin.Info{Name: "picture", Version: "1.0.0",
		Doc: "Texts that look like the source: # is a digit, @ a small letter."})
	steps.Register([]string{"picture"}, func([]byte) (steps.Plugin, error) { return opened{}, nil })
}

func main() {}

type opened struct{}

// Begin implements steps.Plugin.
func (opened) Begin(r steps.Request) (steps.Sequence, error) {
	if n := len(r.Source); n < 1 || n > longest {
		return nil, errors.New("the picture has " + strconv.Itoa(n) + " bytes, want 1 to 64")
	}
	t := &text{picture: r.Source, masks: make([][]uint32, len(r.Source)+1)}
	for i := range t.masks {
		t.masks[i] = make([]uint32, abi.MaskWords(plugin.VocabSize()))
	}
	for id := range plugin.VocabSize() {
		if plugin.IsEnd(id) {
			t.set(len(r.Source), id)
		} else if b, ok := plugin.TokenBytes(id); ok && !plugin.IsSpecial(id) {
			t.place(id, b)
		}
	}
	return t, nil
}

// text is one text. at is how many bytes of the picture are written.
type text struct {
	picture string
	at      int
	masks   [][]uint32 // the tokens that may come at each position, the end included
}

func (t *text) set(place int, id uint32) { t.masks[place][id/32] |= 1 << (id % 32) }

// place adds a token to the masks of all positions at which its bytes match.
func (t *text) place(id uint32, b []byte) {
	for from := 0; len(b) > 0 && from+len(b) <= len(t.picture); from++ {
		i := 0
		for i < len(b) && looks(b[i], t.picture[from+i]) {
			i++
		}
		if i == len(b) {
			t.set(from, id)
		}
	}
}

func looks(c, p byte) bool {
	switch p {
	case '#':
		return c >= '0' && c <= '9'
	case '@':
		return c >= 'a' && c <= 'z'
	}
	return c == p
}

// Accept implements steps.Sequence.
func (t *text) Accept(token uint32) error {
	if token >= plugin.VocabSize() || t.masks[t.at][token/32]>>(token%32)&1 == 0 {
		return errors.New("the token may not come here")
	}
	if b, _ := plugin.TokenBytes(token); t.at < len(t.picture) {
		t.at += len(b)
	}
	return nil
}

// Mask implements steps.Sequence.
func (t *text) Mask(m *steps.Mask) { m.AllowWords(t.masks[t.at]) }

// Key implements steps.Keyed.
func (t *text) Key() uint64 { return 1 + uint64(t.at) }

// Forced implements steps.Forcing: the literal text up to the next # or @, unless it encodes to special tokens.
func (t *text) Forced() []uint32 {
	end := t.at
	for end < len(t.picture) && t.picture[end] != '#' && t.picture[end] != '@' {
		end++
	}
	ids, _ := plugin.Encode(t.picture[t.at:end])
	for _, id := range ids {
		if plugin.IsSpecial(id) {
			return nil
		}
	}
	return ids
}
