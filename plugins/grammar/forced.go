package grammar

import "unicode/utf8"

// ForcedBytes is the text that must come next whatever is chosen, at most so many
// bytes of it: it ends where there is a choice, where the text may end, and before
// a token that the grammar names. The error wraps ErrLimit.
func (s *State) ForcedBytes(most int) ([]byte, error) {
	text, _, err := s.forced(most)
	return text, err
}

func (s *State) forced(most int) (text []byte, at *set, err error) {
	w := s.work()
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
	for left := s.first; !left.empty(); {
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

const (
	// maxForced is how many bytes are forced at a time.
	maxForced = 4096
	// chop is how many tokens at the end of a forced text may be left to the model.
	chop = 4
)

// Forced is the tokens that must come next: a way to take several steps at once. They
// are those that the model would be fed had it written the text itself: encode, the
// tokenizer, which adds no tokens, is asked for the text so far and the forced text
// together, and tokens at the end that might have become part of a longer one are left
// out (llguidance's rule, docs/fast_forward.md). None where encode would have cut the
// text so far in another way. tail are the tokens before the state's first, the
// prompt's last ones; nil where there are none or they don't matter. The state does not
// move. The error wraps ErrLimit. The engine will take forced tokens in one step with it.
func (s *State) Forced(tail []uint32, encode func(text string) []uint32) ([]uint32, error) {
	text, end, err := s.forced(maxForced)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	if n := complete(text); n < len(text) {
		text, end = text[:n], nil // behind half a character there is no choice of tokens to look at
	}
	before := s.tail(tail)
	for n := len(before); ; n /= 2 {
		if tokens, ok := s.tokenize(before[len(before)-n:], text, encode); ok {
			return s.settled(tokens, end), nil
		}
		if n == 0 || n == 1 {
			return nil, nil
		}
	}
}

// complete is the length of text without a character at its end that is cut off.
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

// tail is the last tokens up to here, the prompt's included; not further back than text
// that was not cut into tokens, or a special token.
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

// tokenize is the tokens of text behind those of before, ok where encode agrees with before.
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

// settled leaves out tokens at the end, up to chop of them, whose text together is the
// beginning of a longer token that may stand here. end is the set behind all of them,
// nil where that is not known.
func (s *State) settled(tokens []uint32, end *set) []uint32 {
	if end == nil {
		return tokens[:max(len(tokens)-chop, 0)]
	}
	for n := min(chop, len(tokens)); n > 0; n-- {
		var text []byte
		for _, t := range tokens[len(tokens)-n:] {
			text = append(text, s.g.v.texts[t]...)
		}
		if at := s.g.v.all.find(text); at >= 0 && s.longer(uint32(at), end) {
			return tokens[:len(tokens)-n]
		}
	}
	return tokens
}

// longer reports whether a token below node may stand, the text of node behind it.
func (s *State) longer(node uint32, at *set) bool {
	b := blend{w: s.work()}
	b.w.walkExits(&b, []uint32{node}, at)
	return len(b.ids) > 0 || b.w.err != nil
}
