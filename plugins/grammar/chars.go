package grammar

import (
	"slices"
	"unicode/utf8"

	"tgi/plugins/grammar/ir"
)

// chars is a term for one character of the ranges, in UTF-8: a tree by leading bytes.
func (w *work) chars(ranges []ir.Range) *term {
	rs := merge(ranges)
	var out []*term
	for _, n := range []struct {
		lo, hi uint32 // code points of this length; surrogates split those of three bytes
		tails  int    // continuation bytes
		lead   byte
	}{
		{0, 0x7F, 0, 0}, {0x80, 0x7FF, 1, 0xC0}, {0x800, 0xD7FF, 2, 0xE0}, {0xE000, 0xFFFF, 2, 0xE0},
		{0x10000, utf8.MaxRune, 3, 0xF0},
	} {
		out = append(out, w.level(clip(rs, n.lo, n.hi), n.lead, n.tails))
	}
	return w.alt(out)
}

// level is a tree of characters by their next byte: lead plus what is above the
// 6*tails lower bits. Ranges are sorted.
func (w *work) level(rs []ir.Range, lead byte, tails int) *term {
	if len(rs) == 0 {
		return nothing
	}
	shift := 6 * tails
	if lead == 0x80 && rs[0].Lo == 0 && rs[0].Hi == 1<<(shift+6)-1 {
		return w.continuations(tails + 1)
	}
	by := map[*term]*byteSet{}
	var order []*term
	for next := uint32(0); len(rs) > 0 && w.err == nil; {
		v := max(next, rs[0].Lo>>shift)
		base := v << shift
		part := clip(rs, base, base|(1<<shift-1))
		for len(rs) > 0 && rs[0].Hi>>shift <= v {
			rs = rs[1:]
		}
		next = v + 1
		if len(part) == 0 {
			continue
		}
		rest := empty
		if tails > 0 {
			for i := range part {
				part[i] = ir.Range{Lo: part[i].Lo - base, Hi: part[i].Hi - base}
			}
			rest = w.level(part, 0x80, tails-1)
		}
		if by[rest] == nil {
			by[rest] = &byteSet{}
			order = append(order, rest)
		}
		by[rest].add(lead | byte(v))
	}
	out := make([]*term, 0, len(order))
	for _, rest := range order {
		out = append(out, w.cat(w.class(*by[rest]), rest))
	}
	return w.alt(out)
}

// continuations is n continuation bytes of any value.
func (w *work) continuations(n int) *term {
	var all byteSet
	all.addRange(0x80, 0xBF)
	c, out := w.class(all), empty
	for range n {
		out = w.cat(c, out)
	}
	return out
}

// merge sorts ranges and joins those that touch.
func merge(ranges []ir.Range) (out []ir.Range) {
	rs := slices.Clone(ranges)
	slices.SortFunc(rs, func(x, y ir.Range) int { return int(x.Lo) - int(y.Lo) })
	for _, r := range rs {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// clip cuts sorted ranges to lo..hi.
func clip(rs []ir.Range, lo, hi uint32) (out []ir.Range) {
	for _, r := range rs {
		if r.Lo > hi {
			break
		}
		if r.Hi >= lo {
			out = append(out, ir.Range{Lo: max(r.Lo, lo), Hi: min(r.Hi, hi)})
		}
	}
	return out
}
