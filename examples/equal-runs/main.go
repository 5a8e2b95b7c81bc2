// Command equal-runs is a grammar that no context-free grammar can express: of
// the source "abc" the texts are abc, aabbcc, aaabbbccc and so on. The plugin
// counts, and says at each step which tokens may come next.
package main

import (
	"errors"
	"fmt"

	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/steps"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "equal-runs", Version: "1.0.0", Config: true,
		Doc:    "Runs of the source's letters, one after the other, all of the same length.",
		Params: `{"type":"object","additionalProperties":false,"properties":{"most":{"description":"Greatest length of a run.","type":"integer","minimum":1,"maximum":1000,"default":20}}}`,
	})
	steps.Register([]string{"equal-runs"}, func(config []byte) (steps.Plugin, error) {
		most, err := readMost(config, 20)
		return runs{most}, err
	})
}

func main() {}

// runs is the plugin. most is the greatest length of a run.
type runs struct{ most int }

// Validate looks at a request's parameters.
func (r runs) Validate(raw []byte) error {
	_, err := readMost(raw, r.most)
	return err
}

func readMost(raw []byte, most int) (int, error) {
	if raw == nil {
		return most, nil
	}
	in := params.Read(raw)
	for name := range in.Object() {
		if name != "most" {
			in.Fail("unknown parameter: " + name)
			break
		}
		if n := in.Uint(); n >= 1 && n <= 1000 {
			most = int(n)
		} else {
			in.Fail(fmt.Sprintf("most: %d is not from 1 to 1000", n))
		}
	}
	return most, in.Close()
}

// Begin begins a text.
func (r runs) Begin(q steps.Request) (steps.Sequence, error) {
	if len(q.Source) < 1 || len(q.Source) > 26 {
		return nil, fmt.Errorf("the source has %d letters, want 1 to 26", len(q.Source))
	}
	s := &text{letters: q.Source}
	for i := range len(q.Source) {
		if c := q.Source[i]; c < 'a' || c > 'z' || s.place[c] != 0 {
			return nil, fmt.Errorf("the source has %q in place %d, want small letters, each once", c, i+1)
		}
		s.place[q.Source[i]] = i + 1
	}
	var err error
	if s.most, err = readMost(q.Params, r.most); err != nil {
		return nil, err
	}
	for id := range plugin.VocabSize() {
		if plugin.IsEnd(id) {
			s.ends = append(s.ends, id)
		} else if b, ok := plugin.TokenBytes(id); ok && !plugin.IsSpecial(id) && s.spells(b) {
			s.tokens = append(s.tokens, spelt{id, string(b)})
		}
	}
	return s, nil
}

// text is one text on its way: at is the run that it is in, from 0, which has
// count letters so far; the first run came to length.
type text struct {
	letters string
	place   [256]int // of a letter in letters, from 1
	most    int
	tokens  []spelt // those that are made of the letters
	ends    []uint32

	state
}

type state struct{ at, count, length int }

type spelt struct {
	id    uint32
	bytes string
}

func (t *text) spells(b []byte) bool {
	for _, c := range b {
		if t.place[c] == 0 {
			return false
		}
	}
	return len(b) > 0
}

// after is the state behind further letters; false when they may not come.
func (t *text) after(s state, bytes string) (state, bool) {
	for i := range len(bytes) {
		switch place := t.place[bytes[i]] - 1; {
		case place == s.at && (s.at == 0 && s.count < t.most || s.at > 0 && s.count < s.length):
			s.count++
		case place == s.at+1 && s.count > 0 && (s.at == 0 || s.count == s.length):
			if s.at == 0 {
				s.length = s.count
			}
			s.at, s.count = place, 1
		default:
			return s, false
		}
	}
	return s, true
}

// complete says whether the text may end.
func (t *text) complete() bool {
	return t.count > 0 && t.at == len(t.letters)-1 && (t.at == 0 || t.count == t.length)
}

// Mask implements steps.Sequence.
func (t *text) Mask(m *steps.Mask) {
	for _, x := range t.tokens {
		if _, ok := t.after(t.state, x.bytes); ok {
			m.Allow(x.id)
		}
	}
	if t.complete() {
		for _, id := range t.ends {
			m.Allow(id)
		}
	}
}

// Accept implements steps.Sequence.
func (t *text) Accept(token uint32) error {
	if plugin.IsEnd(token) && t.complete() {
		return nil
	}
	b, _ := plugin.TokenBytes(token)
	next, ok := t.after(t.state, string(b))
	if !ok || len(b) == 0 {
		return errors.New("the token may not come here")
	}
	t.state = next
	return nil
}

// Key implements steps.Keyed.
func (t *text) Key() uint64 {
	return 1 + uint64(t.at)<<40 + uint64(t.count)<<20 + uint64(t.length)
}
