package token

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"tgi/runtime/llm"
)

const (
	// countOn is how many tokens above the most are still counted: an error that says how much too long a prompt is
	// helps more than one that does not.
	countOn = 16 << 10
	// pauseEvery is how many bytes are encoded between two pauses.
	pauseEvery = 32 << 10
)

// ErrSlow is the error about a text for which a pattern of the tokenizer's file takes too long. Its tokens would be
// others than those that the model knows.
var ErrSlow = fmt.Errorf("%w: the tokenizer's pattern takes more than %v for a part of the text", llm.ErrInvalid,
	matchTimeout)

// prompt is one run of EncodePrompt.
type prompt struct {
	llm.Encoded
	how   llm.Encoding
	bytes int // encoded since the last pause
	err   error
}

// EncodePrompt is Encode, and EncodeSpans where there are data, for a text that may be far longer than what is wanted
// of it. A text that can't have few enough tokens by the number of its bytes is not encoded at all. Where that is not
// known, as with a normalizer that removes text, it costs a normalization. The errors are ErrSlow and
// those of o.Pause.
func (t *Tokenizer) EncodePrompt(s string, o llm.Encoding) (llm.Encoded, error) {
	p := &prompt{how: o}
	var data dataSpans
	if o.Data == nil {
		s = toValidUTF8(s)
	} else {
		s, data = toValidUTF8Spans(s, normalizeSpans(o.Data, len(s)))
	}
	template := t.post.template
	if !o.Special || template == nil {
		template = []templatePart{{sequence: true}}
	}
	for _, part := range template {
		if part.sequence {
			e := newEncoder(t, data, func(id uint32, _ text, start, end int, _ string) bool {
				return p.add(id, end-start)
			})
			e.room, e.late = p.room, func() bool {
				p.err = ErrSlow
				return false
			}
			if !e.run(s) {
				break
			}
		}
		if slices.ContainsFunc(part.ids, func(id uint32) bool { return !p.add(id, 0) }) {
			break
		}
	}
	if p.err != nil {
		return llm.Encoded{}, p.err
	}
	if o.Most > 0 && p.Count > o.Most {
		p.Tokens = nil
	} else if o.Keep > 0 {
		p.Tokens = p.Tokens[max(0, len(p.Tokens)-o.Keep):]
	}
	return p.Encoded, nil
}

// add adds a token that covers n bytes. It returns false to end the work.
func (p *prompt) add(id uint32, n int) bool {
	p.Count++
	switch most, keep := p.how.Most, p.how.Keep; {
	case most > 0 && p.Count > most+countOn:
		p.AtLeast = true
		return false
	case most > 0 && p.Count > most:
		p.Tokens = nil // the rest is counted
	case keep > 0 && len(p.Tokens) >= 2*keep+pauseEvery:
		p.Tokens = append(p.Tokens[:0], p.Tokens[len(p.Tokens)-keep+1:]...)
		fallthrough
	default:
		p.Tokens = append(p.Tokens, id)
	}
	if p.bytes += n; p.bytes < pauseEvery || p.how.Pause == nil {
		return true
	}
	p.bytes = 0
	p.err = p.how.Pause()
	return p.err == nil
}

// room reports whether a piece of n bytes may fit, of which a token can stand for longest at most; 0 is any number. If
// not, that ends the work. Small pieces cost little: they are encoded, so that their tokens can be counted.
func (p *prompt) room(n, longest int) bool {
	if p.how.Most == 0 || n <= pauseEvery {
		return true
	}
	least := 0
	if longest > 0 {
		least = (n + longest - 1) / longest
	}
	if p.Count+least <= p.how.Most {
		return true
	}
	p.Count, p.AtLeast = p.Count+least, true
	return false
}

// setLongest sets the bounds of the bytes that a token can stand for.
func (t *Tokenizer) setLongest() {
	longest := t.model.longest()
	if longest == 0 {
		return
	}
	t.longest = longest
	shrink := t.normalizer.shrink()
	for _, p := range t.pre {
		if s, ok := p.(*split); ok && s.how == removed {
			shrink = 0
		}
	}
	for i := range t.normalizedFinder.tokens {
		if a := t.normalizedFinder.tokens[i]; a.lstrip || a.rstrip {
			shrink = 0 // any amount of white space is one token
		}
	}
	t.longestRaw = shrink * max(longest, t.normalizedFinder.longest)
}

// longest returns how many bytes of a word a token can stand for, 0 for any number.
func (m *bpe) longest() int {
	n := 1
	for s := range m.vocab {
		n = max(n, len(s))
	}
	switch covered := m.raw || m.fallback.complete(); {
	case covered:
		return n
	case !m.hasUnk || m.fuseUnk:
		return 0 // unknown characters are left out, or one token however many they are
	}
	return n * utf8.UTFMax // a character of up to so many bytes may take part as an unknown token of one
}

// shrink returns how many times shorter a text may become, in bytes; 0 is any number.
func (ns normalizers) shrink() int {
	times := 1
	for _, n := range ns {
		times *= n.shrink()
		if times == 0 || times > maxGrowth {
			return 0
		}
	}
	return times
}

// shrink implements normalizer. A character is made of at most four, each of at most four bytes, and one that is made
// of several has two bytes or more.
func (f form) shrink() int {
	if f.compose {
		return 8
	}
	return utf8.UTFMax
}

func (lowercase) shrink() int { return utf8.UTFMax }

func (strip) shrink() int { return 0 }

func (prepend) shrink() int { return 1 }

func (n replace) shrink() int {
	if n.on.literal == "" || n.content == "" {
		return 0
	}
	return max(1, (len(n.on.literal)+len(n.content)-1)/len(n.content))
}

func (byteLevelNormalizer) shrink() int { return 1 }
