package generate

import "tgi/runtime/llm"

// Holdback tells which part of a sequence's text may be shown while it grows,
// so that no byte of a stop string is: what could still become one waits. It
// belongs to one sequence and one goroutine.
type Holdback struct {
	stops []partial
	// held are the last pieces of all text, special tokens' included, that a stop
	// string may begin in; size counts their bytes.
	held []run
	size int
	sent int // bytes of the visible text that were let go

	stopped bool
}

// partial is a stop string and how much of it the end of the text matches.
type partial struct {
	text string
	fail []int // as in Knuth, Morris and Pratt
	have int
}

// run is a piece of text; only a visible one is part of the sequence's text.
type run struct {
	text    string
	visible bool
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

// Next takes the sequence's next event and returns what may be shown now. Put
// together it is the same text however the sequence was cut into events: all of
// it, up to the first stop string. The engine ends a sequence there, unless its
// last token also reached the length limit, which it tests first.
func (h *Holdback) Next(e *Event) string {
	if len(h.stops) == 0 && e.Finish == nil {
		if e.Special {
			return ""
		}
		h.sent += len(e.Text)
		return e.Text
	}
	if h.stopped {
		return ""
	}
	before := h.size
	if e.Text != "" {
		h.held = append(h.held, run{e.Text, !e.Special})
		h.size += len(e.Text)
	}
	waits, stop, cut := h.match(e.Text)
	switch {
	case stop != "":
		h.stopped = true
		return h.let(before + cut - len(stop))
	case e.Finish == nil:
		return h.let(h.size - waits)
	}
	h.stopped = e.Finish.Reason == llm.FinishStop
	return e.Finish.Text[h.sent:]
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

// let lets the first n held bytes go and returns the visible ones.
func (h *Holdback) let(n int) string {
	h.size -= n
	out := ""
	for n > 0 {
		r := &h.held[0]
		take := min(n, len(r.text))
		if r.visible {
			out += r.text[:take]
		}
		if r.text = r.text[take:]; r.text == "" {
			h.held = h.held[1:]
		}
		n -= take
	}
	h.sent += len(out)
	return out
}
