package grammar

import (
	"context"
	"slices"
	"unicode/utf8"
)

// ForcedBytes returns the text that must come next, at most so many bytes of it. It stops where there is a choice,
// where the text may end, and before a token that the grammar names. The error wraps ErrLimit.
func (s *State) ForcedBytes(most int) ([]byte, error) {
	text, _, err := s.forced(s.work(), most)
	return text, err
}

func (s *State) forced(w *work, most int) (text []byte, at *set, err error) {
	at = s.at
	for len(text) < most {
		b, to := w.onlyByte(at)
		if w.err != nil {
			return nil, nil, w.err
		}
		if to == nil {
			break
		}
		text, at = append(text, b), to
	}
	return text, at, nil
}

// onlyByte returns the only byte that may follow in s, with the set after it; nil if there
// is a choice.
func (w *work) onlyByte(s *set) (b byte, to *set) {
	if s.accept || s.tokens || !s.impure && s.first.count() != 1 {
		return 0, nil
	}
	return w.onlyOf(s, s.first)
}

// onlyOf returns the only byte of left that may follow in s, with the set after it; nil if there are several, or none.
func (w *work) onlyOf(s *set, left byteSet) (b byte, to *set) {
	for !left.empty() {
		c := left.lowest()
		left = left.minus(byteSetOf(c))
		n := w.step(s, c)
		switch {
		case n == dead:
		case to != nil:
			return 0, nil
		default:
			b, to = c, n
		}
	}
	return b, to
}

// chop is how many tokens at the end of a forced text may be left for the model to choose.
const chop = 4

// Likely is Forced that guesses: where white space may come and otherwise one byte must, it takes the white space that
// followed the same character before in the text, or a space behind a colon and a comma of JSON's. Where the text so
// far is cut into other tokens than the tokenizer's, it takes those of what follows alone. So its tokens need not come.
func (s *State) Likely(ctx context.Context, e Effort, most int, tail []uint32,
	encode func(text string) []uint32) ([]uint32, error) {
	w := s.workWith(ctx, e)
	so, at := s.recent(), s.at
	before := len(so)
	for len(so)-before < most {
		run, to := w.likelyBytes(at, so)
		if w.err != nil {
			return nil, w.err
		}
		if to == nil {
			break
		}
		so, at = append(so, run...), to
	}
	text := so[before:]
	tokens, err := s.tokensOf(w, text, at, tail, encode)
	if err != nil || len(tokens) > 0 || len(text) == 0 {
		return tokens, err
	}
	tokens, _ = s.tokenize(nil, text[:complete(text)], encode)
	return tokens, nil
}

// likelyBytes returns what is likely to follow in s behind the text so far, with the set after it; nil if there is a
// choice.
func (w *work) likelyBytes(s *set, so []byte) (run []byte, to *set) {
	if s.accept || s.tokens {
		return nil, nil
	}
	b, next := w.onlyOf(s, s.first.minus(whiteSpace))
	if next == nil {
		return nil, nil
	}
	space := habit(so)
	at := s
	for _, c := range space {
		if at = w.step(at, c); at == dead {
			return []byte{b}, next
		}
	}
	if len(space) > 0 {
		return space, at
	}
	return []byte{b}, next
}

var whiteSpace = byteSetOf(' ').or(byteSetOf('\n')).or(byteSetOf('\t')).or(byteSetOf('\r'))

// habit returns the white space that followed the last character of a text before, none behind white space.
func habit(so []byte) []byte {
	if len(so) == 0 || whiteSpace.has(so[len(so)-1]) {
		return nil
	}
	last := so[len(so)-1]
	switch last {
	case ':', ',', '{', '}', '[', ']':
	default:
		return nil
	}
	for i := len(so) - 2; i >= 0; i-- {
		if so[i] != last {
			continue
		}
		n := i + 1
		for n < len(so) && whiteSpace.has(so[n]) {
			n++
		}
		return slices.Clone(so[i+1 : n])
	}
	if last == ':' || last == ',' {
		return []byte{' '}
	}
	return nil
}

// recent returns the end of the text so far.
func (s *State) recent() (out []byte) {
	const tokens = 64
	n := 0
	for p := s.past; p != nil && n < tokens; p = p.before {
		text := p.text
		if p.token != noToken {
			text = s.g.v.texts[p.token]
		}
		out = append(out, []byte(text)...)
		slices.Reverse(out[len(out)-len(text):])
		n++
	}
	slices.Reverse(out)
	return out
}

// Forced returns the tokens that must come next, so that one step can give several: those of at most so many bytes.
// They are the tokens that the tokenizer makes of the text: encode, which must add no tokens, encodes the text so far
// together with the forced text, and tokens at the end that might become part of a longer one are left out
// (llguidance's rule, docs/fast_forward.md). The result is empty if encode would have split the text so far
// differently. tail holds the tokens before the state's first one, the last of the prompt; nil if there are none or
// they don't matter. The state does not change. The error wraps ErrLimit, or is ctx's.
func (s *State) Forced(ctx context.Context, e Effort, most int, tail []uint32,
	encode func(text string) []uint32) ([]uint32, error) {
	w := s.workWith(ctx, e)
	text, end, err := s.forced(w, most)
	if err != nil {
		return nil, err
	}
	return s.tokensOf(w, text, end, tail, encode)
}

// Jump is Forced, but that what it returns depends on the text alone: where the effort does not suffice to know all of
// it, there is an error.
func (s *State) Jump(ctx context.Context, e Effort, most int, tail []uint32,
	encode func(text string) []uint32) ([]uint32, error) {
	w := s.workWith(ctx, e)
	text, end, err := s.forced(w, most)
	if err != nil {
		return nil, err
	}
	tokens, err := s.tokensOf(w, text, end, tail, encode)
	if err == nil {
		err = w.err
	}
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// tokensOf returns the tokens of a text that leads to the set end, without those that may become part of a longer one.
func (s *State) tokensOf(w *work, text []byte, end *set, tail []uint32,
	encode func(text string) []uint32) ([]uint32, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if n := complete(text); n < len(text) {
		text, end = text[:n], nil // within a character there is no choice of tokens to consider
	}
	before := s.tail(tail)
	for n := len(before); ; n /= 2 {
		if tokens, ok := s.tokenize(before[len(before)-n:], text, encode); ok {
			return w.settled(tokens, end), nil
		}
		if n == 0 || n == 1 {
			return nil, nil
		}
	}
}

// complete is the length of text without an incomplete character at its end.
func complete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// around is how many tokens before a forced text are encoded with it.
const around = 8

// tail returns the last tokens so far, the prompt's included; it stops at text that was not split into tokens and at a
// special token.
func (s *State) tail(prompt []uint32) []uint32 {
	out := make([]uint32, around)
	n := around
	p := s.past
	for ; p != nil && n > 0; p = p.before {
		if p.token == noToken || s.g.v.texts[p.token] == "" {
			return out[n:]
		}
		n--
		out[n] = p.token
	}
	for i := len(prompt) - 1; i >= 0 && n > 0; i-- {
		if prompt[i] >= uint32(s.g.v.size) || s.g.v.texts[prompt[i]] == "" {
			break
		}
		n--
		out[n] = prompt[i]
	}
	return out[n:]
}

// tokenize returns the tokens of text after those of before; ok if encode agrees with before.
func (s *State) tokenize(before []uint32, text []byte, encode func(string) []uint32) (tokens []uint32, ok bool) {
	v := s.g.v
	var all []byte
	for _, t := range before {
		all = append(all, v.texts[t]...)
	}
	all = append(all, text...)
	if !utf8.Valid(all) {
		return nil, false
	}
	tokens = encode(string(all))
	if len(tokens) < len(before) {
		return nil, false
	}
	for i, t := range tokens {
		if t >= uint32(v.size) || v.texts[t] == "" || i < len(before) && t != before[i] {
			return nil, false
		}
		if n := len(v.texts[t]); n > len(all) || string(all[:n]) != v.texts[t] {
			return nil, false
		} else {
			all = all[n:]
		}
	}
	return tokens[len(before):], len(all) == 0
}

// settled removes tokens at the end, up to chop of them, whose joined text is a proper prefix of a longer token that is
// allowed there. end is the set after all of them, nil if not known. Where w does not suffice to find out, none of the
// last chop tokens stay.
func (w *work) settled(tokens []uint32, end *set) []uint32 {
	unknown := tokens[:max(len(tokens)-chop, 0)]
	if end == nil {
		return unknown
	}
	for n := min(chop, len(tokens)); n > 0; n-- {
		var text []byte
		for _, t := range tokens[len(tokens)-n:] {
			text = append(text, w.v.texts[t]...)
		}
		at := w.v.all.find(text)
		if at < 0 {
			continue
		}
		longer := w.longer(uint32(at), end)
		if w.err != nil {
			return unknown
		}
		if longer {
			return tokens[:len(tokens)-n]
		}
	}
	return tokens
}

// longer reports whether a token below node is allowed after the text of node.
func (w *work) longer(node uint32, at *set) bool {
	b := maskBuilder{w: w}
	w.walkExits(&b, []uint32{node}, at)
	return len(b.ids) > 0
}
