package generate

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"unicode/utf8"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// A prompt ends where its writer stopped, mostly not where a token of the whole text would end: behind "http:" no model
// writes "//", which it knows as "://". Token healing takes the last token back and has the text begin with what that
// stood for, in whatever tokens. That beginning is no part of the reply.

// healing knows which tokens may stand at the border of prompt and text. It is safe for concurrent use.
type healing struct {
	tok    Tokenizer
	vocab  int
	hidden func(llm.Token) bool
	always bool // also for requests that say nothing

	once  sync.Once
	order []llm.Token // those with a text, by their texts
}

// WithHealing lets requests heal the last token of their prompt; always does so for those that say nothing. hidden
// reports tokens that are no text. It is called before the first request.
func (s *Service) WithHealing(hidden func(llm.Token) bool, always bool) *Service {
	s.healing = &healing{tok: s.tok, vocab: s.limits.Vocab, hidden: hidden, always: always}
	return s
}

// ends reports whether the prompt ends where it is meant to: a conversation or token ids, and no text.
func (d *Draft) ends() bool { return d.Conversation != nil || d.Tokens != nil }

// noteHealing notes a token_healing that has no effect among d's members that mean nothing.
func (d *Draft) noteHealing() {
	if d.Heal != nil && *d.Heal && d.ends() {
		d.Unknown = slices.Concat(d.Unknown, []string{"token_healing"})
	}
}

// heal takes the last token of r's prompt back if d wants that and another token could stand in its place.
func (s *Service) heal(d *Draft, r *Request) error {
	asked := d.Heal != nil && *d.Heal
	switch {
	case r.prompts > 1: // the second one ends otherwise; Guidance.check refuses those that ask
		return nil
	case s.healing == nil || d.Heal != nil && !*d.Heal || d.Heal == nil && !s.healing.always:
		if asked {
			return invalid("token_healing", "`token_healing` is not supported by this model")
		}
		return nil
	case d.Grammar != nil || r.Params.PromptLogprobs || r.Params.BeamSearch():
		if asked {
			_, other := d.searchField()
			switch {
			case d.Grammar != nil:
				other = "`" + cmp.Or(d.Grammar.Field, "tool_choice") + "`"
			case r.Params.PromptLogprobs:
				other = "`" + d.echoField() + "`"
			}
			return invalid("token_healing", "`token_healing` and %s exclude each other", other)
		}
		return nil
	case d.ends() || r.ImageTokens > 0 || r.contexts > 0:
		return nil
	}
	if text := s.healing.last(r.Prompt); text != nil {
		n := len(r.Prompt) - 1
		r.healed = &engine.Healed{Tokens: r.Prompt[n:], Text: text, Spell: s.healing.spell}
		r.Prompt = r.Prompt[:n:n]
	}
	return nil
}

// last returns the text of the last token of a prompt if it can be healed, otherwise nil.
func (h *healing) last(prompt []llm.Token) []byte {
	n := len(prompt)
	if n < 2 || h.hidden(prompt[n-1]) || h.hidden(prompt[n-2]) { // a text may begin otherwise than it goes on
		return nil
	}
	text, ok := h.tok.Bytes(prompt[n-1])
	if !ok || len(text) == 0 || !utf8.Valid(text) {
		return nil
	}
	for range h.beginning(text) {
		return text
	}
	return nil
}

// list sorts the tokens by their texts.
func (h *healing) list() []llm.Token {
	h.once.Do(func() {
		texts := make([][]byte, h.vocab)
		for t := range texts {
			if h.hidden(llm.Token(t)) {
				continue
			}
			if texts[t], _ = h.tok.Bytes(llm.Token(t)); len(texts[t]) > 0 {
				h.order = append(h.order, llm.Token(t))
			}
		}
		slices.SortFunc(h.order, func(a, b llm.Token) int {
			return cmp.Or(bytes.Compare(texts[a], texts[b]), cmp.Compare(a, b))
		})
	})
	return h.order
}

// from returns the tokens whose texts are text or come after it.
func (h *healing) from(text []byte) []llm.Token {
	list := h.list()
	i, _ := slices.BinarySearchFunc(list, text, func(t llm.Token, text []byte) int {
		b, _ := h.tok.Bytes(t)
		return bytes.Compare(b, text)
	})
	return list[i:]
}

// beginning yields the tokens whose texts go on after text.
func (h *healing) beginning(text []byte) func(yield func(llm.Token) bool) {
	return func(yield func(llm.Token) bool) {
		for _, t := range h.from(text) {
			b, _ := h.tok.Bytes(t)
			if !bytes.HasPrefix(b, text) || len(b) > len(text) && !yield(t) {
				return
			}
		}
	}
}

// exactly yields the tokens of a text.
func (h *healing) exactly(text []byte) func(yield func(llm.Token) bool) {
	return func(yield func(llm.Token) bool) {
		for _, t := range h.from(text) {
			if b, _ := h.tok.Bytes(t); !bytes.Equal(b, text) || !yield(t) {
				return
			}
		}
	}
}

// spell returns tokens that stand for a text together, each the longest that does; nil where there are none.
func (h *healing) spell(text []byte) (out []llm.Token) {
	for n := len(text); n > 0; n-- {
		for t := range h.exactly(text[:n]) {
			out, text = append(out, t), text[n:]
			n = len(text) + 1
			break
		}
	}
	if len(text) > 0 {
		return nil
	}
	return out
}

// healed holds each sequence to the text that was taken back, before its user code.
func (r *Run) healed(plugins func(int) sample.Plugins) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		m := &healMask{of: r.service.healing, text: r.Request.healed.Text}
		first := sample.Plugins{Masker: m}
		if plugins == nil {
			return first
		}
		return sample.Join(first, plugins(i))
	}
}

// healMask lets a sequence begin with a text.
type healMask struct {
	of   *healing
	text []byte
	done int // bytes of text that were written
}

// Name implements sample.Named.
func (*healMask) Name() string { return "token_healing" }

// Mask implements sample.Masker.
func (m *healMask) Mask(bits []uint32) (constrained bool, err error) {
	left := m.text[m.done:]
	if len(left) == 0 {
		return false, nil
	}
	clear(bits)
	set := func(t llm.Token) { bits[t/32] |= 1 << (t % 32) }
	for t := range m.of.beginning(left) {
		set(t)
	}
	for n := range left {
		for t := range m.of.exactly(left[:n+1]) {
			set(t)
		}
	}
	return true, nil
}

// Accept implements sample.Masker.
func (m *healMask) Accept(t llm.Token) error {
	if m.done < len(m.text) {
		b, _ := m.of.tok.Bytes(t)
		m.done = min(m.done+len(b), len(m.text))
	}
	return nil
}

// Fork implements sample.ForkingMasker.
func (m *healMask) Fork() sample.Masker {
	twin := *m
	return &twin
}

// Rewind implements sample.Rewinder.
func (m *healMask) Rewind(h sample.History) error {
	m.done = 0
	for _, t := range h.Output {
		if err := m.Accept(t); err != nil {
			return err
		}
	}
	return nil
}
