package generate

import (
	"tgi/runtime/llm"
	"tgi/runtime/stop"
)

// StopFilter tells which part of a sequence's text may be shown while it grows,
// so that no byte of a stop string is: what could still become one waits. It
// belongs to one sequence and one goroutine.
type StopFilter struct {
	stops *stop.Matcher
	// held are the last pieces of all text, special tokens' included, that a stop
	// string may begin in; size counts their bytes.
	held []Segment
	size int
	sent int // bytes of the visible text that were passed on
	out  []Segment

	stopped bool
	found   string // the stop string that ended the text
}

// Segment is a part of what a sequence generates.
type Segment struct {
	// Text of the piece.
	Text string
	// Special says that it is the text of one special token, or of a part of one
	// before a stop string, and not part of the sequence's text.
	Special bool
}

// NewStopFilter returns a StopFilter for a sequence that ends with one of stops.
// keep leaves the stop string in the text: then nothing waits.
func NewStopFilter(stops []string, keep bool) *StopFilter {
	if keep {
		stops = nil
	}
	return &StopFilter{stops: stop.New(stops)}
}

// Next takes the sequence's next event and returns what may be shown now; it is
// the caller's until the next call. Put together it is the same text however the
// sequence was cut into events: all of it, up to the first stop string. The
// engine ends a sequence there, unless its last token also reached the length
// limit, which it tests first.
func (h *StopFilter) Next(e *Event) []Segment {
	h.out = h.out[:0]
	if h.stopped {
		return nil
	}
	if e.Finish != nil && e.Special {
		h.restore(e.Finish.Text)
	}
	before := h.size
	if e.Text != "" {
		h.held = append(h.held, Segment{e.Text, e.Special})
		h.size += len(e.Text)
	}
	found, cut := h.stops.Feed(e.Text)
	switch {
	case found != "":
		h.stopped, h.found = true, found
		h.release(before + cut - len(found))
		h.held = nil
	case e.Finish == nil:
		h.release(h.size - h.stops.Pending())
	default:
		h.stopped = e.Finish.Reason == llm.FinishStop
		h.release(h.size)
	}
	return h.out
}

// restore appends what whole, the sequence's text, has and no event had: a
// character that the model left incomplete before its last token.
func (h *StopFilter) restore(whole string) {
	seen := h.sent
	for _, s := range h.held {
		if !s.Special {
			seen += len(s.Text)
		}
	}
	if rest := whole[min(seen, len(whole)):]; rest != "" {
		h.stops.Feed(rest)
		h.held = append(h.held, Segment{Text: rest})
		h.size += len(rest)
	}
}

// Stopped reports whether a stop string ended the sequence's text; it is known
// after the last event.
func (h *StopFilter) Stopped() bool { return h.stopped }

// release passes on the first n held bytes.
func (h *StopFilter) release(n int) {
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
		h.out = append(h.out, Segment{s.Text[:take], s.Special})
		if !s.Special {
			h.sent += take
		}
		if s.Text = s.Text[take:]; s.Text == "" {
			h.held = h.held[1:]
		}
		n -= take
	}
}
