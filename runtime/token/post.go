package token

import (
	"unicode"
)

// templatePart is a piece of a post-processing template: the tokens to put
// there, or the text's own when sequence is set.
type templatePart struct {
	ids      []uint32
	sequence bool
}

// post is what happens to the tokens of a text at the end.
type post struct {
	// trims are ByteLevel post-processors that trim offsets, in order; each
	// value is its add_prefix_space.
	trims []bool
	// template is nil when there is none.
	template []templatePart
}

// trim takes the white space of a token out of its offsets, as ByteLevel does:
// o counts characters, and value is the token as the vocabulary spells it. The
// head is the first token of a text.
func trim(o span, value string, head, addPrefixSpace bool) span {
	lead, trail := blanks(value)
	if lead > 0 {
		// The one space that was put in front is in no one's text.
		if (head || o.start == 0) && addPrefixSpace && lead == 1 {
			lead = 0
		}
		o.start = min(o.start+lead, o.end)
	}
	if trail > 0 && o.end >= trail {
		o.end = max(o.end-trail, o.start)
	}
	return o
}

// blanks counts the white space characters at both ends of a token, spelled
// out or in the byte alphabet.
func blanks(value string) (lead, trail int) {
	total, since := 0, 0
	for _, r := range value {
		total++
		if r == byteRunes[' '] || unicode.IsSpace(r) {
			continue
		}
		if since == 0 {
			lead = total - 1
		}
		since = total
	}
	if since == 0 {
		return total, total
	}
	return lead, total - since
}

// apply lays out the template around the tokens.
func (p *post) apply(ids []uint32) []uint32 {
	if p.template == nil {
		return ids
	}
	out := make([]uint32, 0, len(ids)+8)
	for _, part := range p.template {
		if part.sequence {
			out = append(out, ids...)
		} else {
			out = append(out, part.ids...)
		}
	}
	return out
}
