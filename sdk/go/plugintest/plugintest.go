// Package plugintest runs plugins natively in tests. It has a host with a small
// vocabulary, and sequences that are run step by step.
//
//	h := plugintest.New(t, "a", "b", " the", "</s>")
//	p, err := open([]byte(`{}`))
//	seq, err := plugintest.Begin(p, `{"ban": [1]}`, 0, 2)
//	r, err := seq.Step()  // the first position
//	r, err = seq.Step(3)  // token 3 was chosen
//
// Templates and parsers of tool calls need a host only if they call functions
// of package plugin: see [Render] and [Parse].
package plugintest

import (
	"math"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/host"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/sampler"
)

// Host replaces the server in tests. Tests that use it must not run in parallel.
type Host struct {
	// Words are the texts of the tokens. A text like <this> is a special token,
	// and </s> ends the sequence.
	Words []string
	// Seed is the state of Rand.
	Seed uint64
	// Lines are the lines that the plugin logged.
	Lines []string
}

// New installs a host with these words until the test ends.
func New(t testing.TB, words ...string) *Host {
	t.Helper()
	h, before := &Host{Words: words, Seed: 1}, host.Current
	host.Current = h
	t.Cleanup(func() { host.Current = before })
	return h
}

// Log keeps the text in Lines.
func (h *Host) Log(_ uint32, text string) { h.Lines = append(h.Lines, text) }

// VocabSize returns the number of words.
func (h *Host) VocabSize() uint32 { return uint32(len(h.Words)) }

// TokenBytes returns the word.
func (h *Host) TokenBytes(id uint32) ([]byte, bool) {
	if int(id) >= len(h.Words) {
		return nil, false
	}
	return []byte(h.Words[id]), true
}

// TokenFlags returns the flags of a word, which depend on its text, see Words.
func (h *Host) TokenFlags(id uint32) (uint32, bool) {
	if int(id) >= len(h.Words) {
		return 0, false
	}
	switch w := h.Words[id]; {
	case w == "</s>":
		return abi.TokenSpecial | abi.TokenEnd, true
	case len(w) > 2 && w[0] == '<' && w[len(w)-1] == '>':
		return abi.TokenSpecial, true
	}
	return 0, true
}

// Encode splits the text from left to right into the longest words that match.
func (h *Host) Encode(text string) (ids []uint32, ok bool) {
	for text != "" {
		best, length := 0, 0
		for id, w := range h.Words {
			if len(w) > length && strings.HasPrefix(text, w) {
				best, length = id, len(w)
			}
		}
		if length == 0 {
			return nil, false
		}
		ids, text = append(ids, uint32(best)), text[length:]
	}
	return ids, true
}

// Rand returns the next number of SplitMix64.
func (h *Host) Rand() uint64 {
	h.Seed += 0x9e3779b97f4a7c15
	z := h.Seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Sequence is one sequence of a logits plugin.
type Sequence struct {
	// View and Row are those of the next Step, or nil. The plugin may edit
	// both.
	View []logits.Entry
	Row  []float32

	processor logits.Processor
	tokens    []uint32
	prompt    int
}

// Begin starts a sequence as the server does for a request.
func Begin(p logits.Plugin, params string, prompt ...uint32) (*Sequence, error) {
	processor, err := p.Begin([]byte(params), prompt)
	if err != nil {
		return nil, err
	}
	return &Sequence{processor: processor, tokens: append([]uint32(nil), prompt...), prompt: len(prompt)}, nil
}

// Step appends the tokens chosen since the last step, calls the plugin and
// returns its result.
func (s *Sequence) Step(chosen ...uint32) (logits.Result, error) {
	s.tokens = append(s.tokens, chosen...)
	step := logits.Step{Tokens: s.tokens, Prompt: s.prompt, New: len(chosen), View: s.View, Row: s.Row}
	step.Reset()
	err := s.processor.Process(&step)
	return step.Result(), err
}

// Candidates makes a sampler's input of probabilities, which must be in falling order.
func Candidates(probabilities ...float64) []sampler.Candidate {
	c := make([]sampler.Candidate, len(probabilities))
	for i, p := range probabilities {
		c[i] = sampler.Candidate{ID: uint32(i), Logit: float32(math.Log(p)), Logprob: float32(math.Log(p))}
	}
	return c
}
