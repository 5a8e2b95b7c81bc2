package generate

import "tgi/runtime/llm"

// Holdback tells which part of a sequence's text may be shown while it grows,
// so that no byte of a stop string is: what could still become one waits. It
// belongs to one sequence and one goroutine.
type Holdback struct {
	stops []partial
	// held are the last pieces of all text, special tokens' included, that a stop
	// string may begin in; size counts their bytes.
	held []Stretch
	size int
	sent int // bytes of the visible text that were let go
	out  []Stretch

	stopped bool
}

// partial is a stop string and how much of it the end of the text matches.
type partial struct {
	text string
	fail []int // as in Knuth, Morris and Pratt
	have int
}

// Stretch is a piece of what a sequence generates.
type Stretch struct {
	// Text of the piece.
	Text string
	// Special says that it is the text of one special token, or of a part of one
	// before a stop string, and not part of the sequence's text.
	Special bool
}

// NewHoldback returns a Holdback for a sequence that ends with one of stops.
// keep leaves the stop string in the text: then nothing waits.
func NewHoldback(stops []string, keep bool) *Holdback {
	h := &Holdback{}
	if keep {
		return h
	}
	for _, s := range stops {
		if s == "" {
			continue
		}
		fail := make([]int, len(s))
		for i, k := 1, 0; i < len(s); i++ {
			for k > 0 && s[i] != s[k] {
				k = fail[k-1]
			}
			if s[i] == s[k] {
				k++
			}
			fail[i] = k
		}
		h.stops = append(h.stops, partial{text: s, fail: fail})
	}
	return h
}

// Next takes the sequence's next event and returns what may be shown now; it is
// the caller's until the next call. Put together it is the same text however the
// sequence was cut into events: all of it, up to the first stop string. The
// engine ends a sequence there, unless its last token also reached the length
// limit, which it tests first.
func (h *Holdback) Next(e *Event) []Stretch {
	h.out = h.out[:0]
	if h.stopped {
		return nil
	}
	if e.Finish != nil && e.Special {
		h.restore(e.Finish.Text)
	}
	before := h.size
	if e.Text != "" {
		h.held = append(h.held, Stretch{e.Text, e.Special})
		h.size += len(e.Text)
	}
	waits, stop, cut := h.match(e.Text)
	switch {
	case stop != "":
		h.stopped = true
		h.let(before + cut - len(stop))
		h.held = nil
	case e.Finish == nil:
		h.let(h.size - waits)
	default:
		h.stopped = e.Finish.Reason == llm.FinishStop
		h.let(h.size)
	}
	return h.out
}

// restore appends what whole, the sequence's text, has and no event had: a
// character that the model left incomplete before its last token.
func (h *Holdback) restore(whole string) {
	seen := h.sent
	for _, s := range h.held {
		if !s.Special {
			seen += len(s.Text)
		}
	}
	if rest := whole[min(seen, len(whole)):]; rest != "" {
		h.match(rest)
		h.held = append(h.held, Stretch{Text: rest})
		h.size += len(rest)
	}
}

// Stopped says whether a stop string ended the sequence's text; it is known
// after the last event.
func (h *Holdback) Stopped() bool { return h.stopped }

// match returns the length of the longest beginning of a stop string that the
// text ends with, piece being its end; and, when piece completes one, the first
// and where in piece that is.
func (h *Holdback) match(piece string) (longest int, stop string, cut int) {
	for i := range len(piece) {
		for j := range h.stops {
			s := &h.stops[j]
			for s.have > 0 && s.text[s.have] != piece[i] {
				s.have = s.fail[s.have-1]
			}
			if s.text[s.have] == piece[i] {
				s.have++
			}
			if s.have == len(s.text) {
				return 0, s.text, i + 1
			}
		}
	}
	for i := range h.stops {
		longest = max(longest, h.stops[i].have)
	}
	return longest, "", 0
}

// let lets the first n held bytes go.
func (h *Holdback) let(n int) {
	if h.size -= n; h.size == 0 {
		for _, s := range h.held {
			if !s.Special {
				h.sent += len(s.Text)
			}
		}
		h.out = append(h.out, h.held...)
		h.held = h.held[:0]
		return
	}
	for n > 0 {
		s := &h.held[0]
		take := min(n, len(s.Text))
		h.out = append(h.out, Stretch{s.Text[:take], s.Special})
		if !s.Special {
			h.sent += take
		}
		if s.Text = s.Text[take:]; s.Text == "" {
			h.held = h.held[1:]
		}
		n -= take
	}
}
