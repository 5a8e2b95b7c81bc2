package pylib

import (
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/value"
)

func addPads(add addMethod) {
	pad := func(name string, f func(gap, width int64) (left int64)) {
		add(name, 1, 2, "", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			width, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			fill := value.Text(" ")
			if a[1] != nil {
				if fill, err = strArg(a[1], "The fill character must be a unicode character, not %s"); err != nil {
					return nil, err
				}
				if fill.Count() != 1 {
					return nil, value.TypeError("The fill character must be exactly one character long")
				}
			}
			return padStr(th, s, width, fill, f)
		})
	}
	pad("ljust", func(int64, int64) int64 { return 0 })
	pad("rjust", func(gap, _ int64) int64 { return gap })
	pad("center", func(gap, width int64) int64 { return gap/2 + gap&width&1 })
	add("zfill", 1, 1, "", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		width, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		sign := 0
		if s.String() != "" && (s.String()[0] == '-' || s.String()[0] == '+') {
			sign = 1
		}
		padded, err := padStr(th, s.Sub(sign, len(s.String())), width-int64(sign), value.Text("0"),
			func(gap, _ int64) int64 { return gap })
		if err != nil {
			return nil, err
		}
		return value.Concat(s.Sub(0, sign), padded), nil
	})
	add("expandtabs", 0, 1, "tabsize", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		size, err := optInt(a[0], 8)
		if err != nil {
			return nil, err
		}
		return expandTabs(th, s, size)
	})
}

// pad fills s up to width characters; left says how many of them go before it.
func padStr(th *value.Thread, s *value.Str, width int64, fill *value.Str,
	left func(gap, width int64) int64) (*value.Str, error) {
	gap := width - int64(s.Count())
	if gap <= 0 {
		return s, nil
	}
	if err := th.GrowTimes(gap, int64(len(fill.String()))); err != nil {
		return nil, err
	}
	before := left(gap, width)
	return value.Concat(value.Concat(fill.Repeat(int(before)), s), fill.Repeat(int(gap-before))), nil
}

func expandTabs(th *value.Thread, s *value.Str, size int64) (*value.Str, error) {
	if size > 1<<20 {
		return nil, th.Grow(-1)
	}
	var w value.Buffer
	col := int64(0)
	for i, r := range s.String() {
		n := utf8.RuneLen(r)
		switch r {
		case '\t':
			if size > 0 {
				gap := size - col%size
				if err := th.Grow(gap); err != nil {
					return nil, err
				}
				w.Put(strings.Repeat(" ", int(gap)), s.IsData(i))
				col += gap
			}
		case '\n', '\r':
			col = 0
			w.Sub(s, i, i+n)
		default:
			col++
			w.Sub(s, i, i+n)
		}
	}
	return w.Done(), nil
}
