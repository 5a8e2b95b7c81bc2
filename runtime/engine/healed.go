package engine

import (
	"slices"
	"strings"

	"tgi/runtime/llm"
)

// Healed is the end of a client's prompt that the model writes again, in whatever tokens. It is no part of the text
// that goes out, and no stop string begins in it. Guards judge what comes behind the client's whole prompt: they are
// shown that prompt, and no text for what the output repeats of it.
type Healed struct {
	// Tokens are those that the client's prompt has behind that of the request.
	Tokens []llm.Token
	// Text is what they stand for, in whole characters. The request's user code has the output begin with it.
	Text []byte
	// Spell returns tokens that stand for an end of Text together, nil for none.
	Spell func(text []byte) []llm.Token
}

// behind returns the client's prompt, of which prompt is the request's.
func (h *Healed) behind(prompt []llm.Token) []llm.Token {
	if h == nil {
		return prompt
	}
	return slices.Concat(prompt, h.Tokens)
}

// size is how many bytes at the beginning of the output are no part of the text.
func (h *Healed) size() int {
	if h == nil {
		return 0
	}
	return len(h.Text)
}

// left is what the output has still to write of the client's prompt, where skip bytes of the text are to be left out.
func (h *Healed) left(skip int) string {
	if h == nil {
		return ""
	}
	return string(h.Text[len(h.Text)-skip:])
}

// beyond is what a token that could come next adds to the text of which the client's prompt has the first bytes, left.
// within says that the prompt has some of it.
func beyond(text, left string) (rest string, within bool) {
	switch {
	case left == "" || text == "":
		return text, false
	case strings.HasPrefix(text, left):
		return text[len(left):], true
	case strings.HasPrefix(left, text):
		return "", true
	}
	return text, false // the text would not go on with it
}

// unhealed returns tokens for what the first n output tokens have not written of the client's prompt. What a guard
// inserts comes behind it.
func (t *pickTask) unhealed(n int) []llm.Token {
	h := t.q.healed
	if h == nil {
		return nil
	}
	text := newTranscript(t.e.codec, t.history.Prompt, nil, len(h.Text))
	for i := 0; i < n && text.skip > 0; i++ {
		text.add(t.q.guards.output[i], t.e.codec.Special(t.q.guards.output[i]))
	}
	switch text.skip {
	case 0:
		return nil
	case len(h.Text):
		return h.Tokens
	}
	return h.Spell(h.Text[len(h.Text)-text.skip:])
}
