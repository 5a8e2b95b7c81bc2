package token

import (
	"strings"
	"unicode/utf8"
)

// replaceDecoder is the Replace decoder with a string for a pattern.
type replaceDecoder struct{ pattern, content string }

type replaceStage struct {
	replaceDecoder
	next  sink
	held  string // may be the start of the pattern
	start bool   // held starts a token
}

func (d replaceDecoder) stage(next sink, _ bool) sink {
	return &replaceStage{replaceDecoder: d, next: next}
}

func (d *replaceStage) feed(s string, start bool) {
	if start {
		d.flush()
		d.start = true
	}
	s = d.held + s
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, d.pattern)
		if !found {
			break
		}
		out.WriteString(before)
		out.WriteString(d.content)
		s = after
	}
	n := min(len(d.pattern)-1, len(s))
	for n > 0 && !strings.HasPrefix(d.pattern, s[len(s)-n:]) {
		n--
	}
	out.WriteString(s[:len(s)-n])
	d.held = s[len(s)-n:]
	d.emit(out.String())
}

func (d *replaceStage) emit(s string) {
	d.next.feed(s, d.start)
	d.start = false
}

func (d *replaceStage) flush() {
	if d.held != "" {
		d.emit(d.held)
		d.held = ""
	}
}

func (d *replaceStage) finish() {
	d.flush()
	d.next.finish()
}

// stripDecoder is the Strip decoder: it removes up to start occurrences of content from the
// beginning of each token and up to stop from its end.
type stripDecoder struct {
	content     rune
	start, stop int
}

type stripStage struct {
	stripDecoder
	next sink
	left int    // how many more may go from the front
	held string // a run of content at the end, at most stop of them
	head bool   // the next fragment passed on starts a token
}

func (d stripDecoder) stage(next sink, _ bool) sink {
	return &stripStage{stripDecoder: d, next: next}
}

func (d *stripStage) feed(s string, start bool) {
	if start {
		d.held, d.left, d.head = "", d.start, true
	}
	for d.left > 0 && s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r != d.content {
			d.left = 0
			break
		}
		d.left--
		s = s[n:]
	}
	s = d.held + s
	cut := len(s)
	for range d.stop {
		r, n := utf8.DecodeLastRuneInString(s[:cut])
		if n == 0 || r != d.content {
			break
		}
		cut -= n
	}
	d.held = s[cut:]
	d.next.feed(s[:cut], d.head)
	d.head = false
}

func (d *stripStage) finish() { d.next.finish() }

// metaspaceDecoder is the Metaspace decoder: the mark becomes a space, or nothing in the first
// token unless encoding adds none there.
type metaspaceDecoder struct {
	mark  string
	never bool
}

type metaspaceStage struct {
	metaspaceDecoder
	next   sink
	tokens int
}

func (d metaspaceDecoder) stage(next sink, _ bool) sink {
	return &metaspaceStage{metaspaceDecoder: d, next: next}
}

func (d *metaspaceStage) feed(s string, start bool) {
	if start {
		d.tokens++
	}
	blank := " "
	if d.tokens <= 1 && !d.never {
		blank = ""
	}
	d.next.feed(strings.ReplaceAll(s, d.mark, blank), start)
}

func (d *metaspaceStage) finish() { d.next.finish() }
