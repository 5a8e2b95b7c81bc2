package token

// pretoken is one stage of the pre-tokenizer: it splits a text into words and passes them to
// next until that returns false. Neither the text nor the words are empty.
type pretoken interface {
	apply(x text, next func(text) bool) bool
}

// behavior decides what happens to the matches of a split pattern.
type behavior uint8

const (
	isolated behavior = iota
	removed
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// cut turns matches into the resulting pieces, in place.
func (b behavior) cut(ms []match) []match {
	out := ms[:0]
	switch b {
	case isolated:
		return ms
	case removed:
		for _, m := range ms {
			if !m.hit {
				out = append(out, m)
			}
		}
	case mergedWithPrevious, contiguous:
		previous := false
		for _, m := range ms {
			join := m.hit && !previous
			if b == contiguous {
				join = m.hit == previous
			}
			previous = m.hit
			if join && len(out) > 0 {
				out[len(out)-1].end = m.end
			} else {
				out = append(out, m)
			}
		}
	case mergedWithNext:
		for i, m := range ms {
			// A hit joins what follows unless that is a hit itself.
			if i > 0 && ms[i-1].hit && !m.hit && len(out) > 0 {
				out[len(out)-1].end = m.end
				continue
			}
			out = append(out, m)
		}
	}
	return out
}

// split is the Split pre-tokenizer, and Digits.
type split struct {
	on     *splitter
	how    behavior
	invert bool
}

func (p *split) apply(x text, next func(text) bool) bool {
	if p.on.scan != nil && p.how == isolated {
		for i := 0; i < len(x.s); {
			end := p.on.scan(x.s, i)
			if !next(x.slice(i, end)) {
				return false
			}
			i = end
		}
		return true
	}
	ms, late := p.on.matches(x.s)
	if late && !next(text{late: true}) {
		return false
	}
	if p.invert {
		for i := range ms {
			ms[i].hit = !ms[i].hit
		}
	}
	for _, m := range p.how.cut(ms) {
		if m.start < m.end && !next(x.slice(m.start, m.end)) {
			return false
		}
	}
	return true
}

// byteLevel is the ByteLevel pre-tokenizer.
type byteLevel struct {
	addPrefixSpace bool
	useRegex       bool
	// raw keeps the bytes for a model that reads raw bytes; otherwise each becomes its
	// character of the byte alphabet.
	raw bool
}

func (p *byteLevel) apply(x text, next func(text) bool) bool {
	if p.addPrefixSpace && x.s[0] != ' ' {
		x = x.prepend(" ")
	}
	pass := next
	if !p.raw {
		pass = func(y text) bool { return next(toByteAlphabet(y)) }
	}
	if !p.useRegex {
		return pass(x)
	}
	for i := 0; i < len(x.s); {
		end := scanGPT2(x.s, i)
		if !pass(x.slice(i, end)) {
			return false
		}
		i = end
	}
	return true
}

// scheme is when Metaspace prepends its mark.
type scheme uint8

const (
	always scheme = iota
	first
	never
)

var schemes = map[string]scheme{"always": always, "first": first, "never": never}

// metaspace is the Metaspace pre-tokenizer.
type metaspace struct {
	replacement string // one character
	prepend     scheme
	split       bool
}

func (p *metaspace) apply(x text, next func(text) bool) bool {
	blank := splitter{literal: " "}
	x = x.replace(blank.quickMatches(x.s), p.replacement)
	if p.prepend == always || p.prepend == first && x.base == 0 {
		if len(x.s) < len(p.replacement) || x.s[:len(p.replacement)] != p.replacement {
			x = x.prepend(p.replacement)
		}
	}
	if !p.split {
		return next(x)
	}
	marks := splitter{literal: p.replacement}
	for _, m := range mergedWithNext.cut(marks.quickMatches(x.s)) {
		if !next(x.slice(m.start, m.end)) {
			return false
		}
	}
	return true
}
