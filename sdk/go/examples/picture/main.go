// Command picture is a grammar of texts that look like its source, in which #
// stands for a digit, @ for a small letter, and everything else for itself. It
// follows the text itself and says at each step which tokens may come.
package main

import (
	"errors"
	"strconv"

	"tgi/sdk/go/plugin"
	"tgi/sdk/go/steps"
)

const longest = 64

func init() {
	plugin.Describe(plugin.Info{Name: "picture", Version: "1.0.0", Doc: "Texts that look like the source: # is a digit, @ a small letter."})
	steps.Register([]string{"picture"}, func([]byte) (steps.Plugin, error) { return opened{}, nil })
}

func main() {}

type opened struct{}

// Begin implements steps.Plugin.
func (opened) Begin(r steps.Request) (steps.Sequence, error) {
	if n := len(r.Source); n < 1 || n > longest {
		return nil, errors.New("the picture has " + strconv.Itoa(n) + " bytes, want 1 to 64")
	}
	t := &text{picture: r.Source}
	for id := range plugin.VocabSize() {
		if plugin.IsEnd(id) {
			t.ends = append(t.ends, id)
		}
		b, _ := plugin.TokenBytes(id)
		for place := 0; !plugin.IsSpecial(id) && place < len(t.picture); place++ {
			if t.fits(string(b), place) {
				t.tokens = append(t.tokens, spelt{id, string(b)})
				break
			}
		}
	}
	return t, nil
}

// text is one text. at is how much of the picture is written.
type text struct {
	picture string
	at      int
	tokens  []spelt // those that fit somewhere
	ends    []uint32
}

type spelt struct {
	id    uint32
	bytes string
}

// fits says whether bytes can stand in a place of the picture.
func (t *text) fits(b string, place int) bool {
	if b == "" || len(b) > len(t.picture)-place {
		return false
	}
	for i := range len(b) {
		if !looks(b[i], t.picture[place+i]) {
			return false
		}
	}
	return true
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
	if plugin.IsEnd(token) && t.at == len(t.picture) {
		return nil
	}
	for _, s := range t.tokens {
		if s.id == token && t.fits(s.bytes, t.at) {
			t.at += len(s.bytes)
			return nil
		}
	}
	return errors.New("the token may not come here")
}

// Mask implements steps.Sequence.
func (t *text) Mask(m *steps.Mask) {
	if t.at == len(t.picture) {
		for _, id := range t.ends {
			m.Allow(id)
		}
		return
	}
	for _, s := range t.tokens {
		if t.fits(s.bytes, t.at) {
			m.Allow(s.id)
		}
	}
}

// Key implements steps.Keyed.
func (t *text) Key() uint64 { return 1 + uint64(t.at) }

// Forced implements steps.Forcing: what stands for itself, up to the next # or @, unless special tokens spell it.
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
