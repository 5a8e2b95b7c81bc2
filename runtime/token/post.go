package token

import (
	"unicode"
)

// templatePart is a part of a post-processing template: fixed tokens, or the text's tokens if
// sequence is set.
type templatePart struct {
	ids      []uint32
	sequence bool
}

// post is the post-processor.
type post struct {
	// trims are ByteLevel post-processors that trim offsets, in order; each
	// value is its add_prefix_space.
	trims []bool
	// template is nil when there is none.
	template []templatePart
}

// trim removes a token's white space from its offsets, as ByteLevel does. o counts characters,
// value is the token in the vocabulary's spelling, and head says that it is the text's first.
func trim(o span, value string, head, addPrefixSpace bool) span {
	lead, trail := blanks(value)
	if lead > 0 {
		// The space that add_prefix_space added is not in the text.
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

// apply puts the template's tokens around ids.
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
