package token

import "unicode"

// filter removes the characters that keep does not want. Each one left stands for those removed behind it.
func (x text) filter(keep func(r rune) bool) text {
	edits := make([]edit, 0, len(x.s))
	skip := 0
	for _, r := range x.s {
		switch {
		case keep(r):
			edits = append(edits, edit{r, 0})
		case len(edits) == 0:
			skip++
		default:
			edits[len(edits)-1].shift--
		}
	}
	switch {
	case len(edits) == 0:
		return text{base: x.base, whole: x.whole}
	case skip == 0 && len(edits) == len([]rune(x.s)):
		return x
	}
	return x.transform(edits, skip)
}

// mapped replaces each character by another one.
func (x text) mapped(to func(r rune) rune) text {
	edits := make([]edit, 0, len(x.s))
	changed := false
	for _, r := range x.s {
		edits = append(edits, edit{to(r), 0})
		changed = changed || edits[len(edits)-1].r != r
	}
	if !changed {
		return x
	}
	return x.transform(edits, 0)
}

// bertNormalizer is the BertNormalizer.
type bertNormalizer struct{ clean, chinese, accents, lower bool }

func (n bertNormalizer) normalize(x text) text {
	if n.clean {
		x = x.filter(func(r rune) bool { return classes.of(r)&control == 0 }).mapped(func(r rune) rune {
			if unicode.IsSpace(r) {
				return ' '
			}
			return r
		})
	}
	if n.chinese {
		x = spaceChinese(x)
	}
	if n.accents {
		x = forms["NFD"].apply(x).filter(func(r rune) bool { return classes.of(r)&nonspacing == 0 })
	}
	if n.lower {
		x = lowercase{}.normalize(x)
	}
	return x
}

// shrink implements normalizer.
func (n bertNormalizer) shrink() int {
	if n.clean || n.accents {
		return 0
	}
	return lowercase{}.shrink()
}

// spaceChinese puts spaces around Chinese characters.
func spaceChinese(x text) text {
	edits := make([]edit, 0, len(x.s))
	changed := false
	for _, r := range x.s {
		if isChinese(r) {
			edits = append(edits, edit{' ', 0}, edit{r, 1}, edit{' ', 1})
			changed = true
			continue
		}
		edits = append(edits, edit{r, 0})
	}
	if !changed {
		return x
	}
	return x.transform(edits, 0)
}

// isChinese reports whether r is in one of the blocks of CJK ideographs that BERT knows.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4dbf, 0x4e00 <= r && r <= 0x9fff, 0xf900 <= r && r <= 0xfaff, 0x20000 <= r && r <= 0x2a6df,
		0x2a700 <= r && r <= 0x2b81f, 0x2b920 <= r && r <= 0x2ceaf, 0x2f800 <= r && r <= 0x2fa1f:
		return true
	}
	return false
}

// stripAccents is the StripAccents normalizer.
type stripAccents struct{}

func (stripAccents) normalize(x text) text {
	return x.filter(func(r rune) bool { return classes.of(r)&combining == 0 })
}

func (stripAccents) shrink() int { return 0 }

// nmt is the Nmt normalizer.
type nmt struct{}

func (nmt) normalize(x text) text {
	return x.filter(func(r rune) bool {
		return !(1 <= r && r <= 8 || r == 0xb || 0xe <= r && r <= 0x1f || r == 0x7f || r == 0x8f || r == 0x9f)
	}).mapped(func(r rune) rune {
		switch r {
		case '\t', '\n', '\f', '\r', 0x1680, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd:
			return ' '
		}
		if 0x200b <= r && r <= 0x200f {
			return ' '
		}
		return r
	})
}

func (nmt) shrink() int { return 0 }
