package jinja

import (
	"strings"
	"unicode/utf8"
)

func addPads(add addMethod) {
	pad := func(name string, f func(gap, width int64) (left int64)) {
		add(name, 1, 2, "", func(st *state, s *Str, a []Value) (Value, error) {
			width, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			fill := text(" ")
			if a[1] != nil {
				if fill, err = strArg(a[1], "The fill character must be a unicode character, not %s"); err != nil {
					return nil, err
				}
				if fill.count() != 1 {
					return nil, typeError("The fill character must be exactly one character long")
				}
			}
			return st.pad(s, width, fill, f)
		})
	}
	pad("ljust", func(int64, int64) int64 { return 0 })
	pad("rjust", func(gap, _ int64) int64 { return gap })
	pad("center", func(gap, width int64) int64 { return gap/2 + gap&width&1 })
	add("zfill", 1, 1, "", func(st *state, s *Str, a []Value) (Value, error) {
		width, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		sign := 0
		if s.s != "" && (s.s[0] == '-' || s.s[0] == '+') {
			sign = 1
		}
		padded, err := st.pad(s.sub(sign, len(s.s)), width-int64(sign), text("0"), func(gap, _ int64) int64 { return gap })
		if err != nil {
			return nil, err
		}
		return join2(s.sub(0, sign), padded), nil
	})
	add("expandtabs", 0, 1, "tabsize", func(st *state, s *Str, a []Value) (Value, error) {
		size, err := optInt(a[0], 8)
		if err != nil {
			return nil, err
		}
		return st.expandTabs(s, size)
	})
}

// pad fills s up to width characters; left says how many of them go before it.
func (st *state) pad(s *Str, width int64, fill *Str, left func(gap, width int64) int64) (*Str, error) {
	gap := width - int64(s.count())
	if gap <= 0 {
		return s, nil
	}
	if err := st.growTimes(gap, int64(len(fill.s))); err != nil {
		return nil, err
	}
	before := left(gap, width)
	return join2(join2(fill.repeat(int(before)), s), fill.repeat(int(gap-before))), nil
}

func (st *state) expandTabs(s *Str, size int64) (*Str, error) {
	if size > 1<<20 {
		return nil, st.grow(-1)
	}
	var w sbuf
	col := int64(0)
	for i, r := range s.s {
		n := utf8.RuneLen(r)
		switch r {
		case '\t':
			if size > 0 {
				gap := size - col%size
				if err := st.grow(gap); err != nil {
					return nil, err
				}
				w.put(strings.Repeat(" ", int(gap)), s.isData(i))
				col += gap
			}
		case '\n', '\r':
			col = 0
			w.sub(s, i, i+n)
		default:
			col++
			w.sub(s, i, i+n)
		}
	}
	return w.done(), nil
}
