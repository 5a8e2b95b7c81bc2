package token

// fixedLength is the FixedLength pre-tokenizer: it cuts after each length characters.
type fixedLength struct{ length int }

func (p fixedLength) apply(x text, next func(text) bool) bool {
	start, n := 0, 0
	for i := range x.s {
		if n == p.length {
			if !next(x.slice(start, i)) {
				return false
			}
			start, n = i, 0
		}
		n++
	}
	return next(x.slice(start, len(x.s)))
}

// scriptSplit is the UnicodeScripts pre-tokenizer: it cuts where the script changes. As in the reference, what stands
// before the first character that has a script is lost.
type scriptSplit struct{}

func (scriptSplit) apply(x text, next func(text) bool) bool {
	last, start := uint8(0), -1
	for i, r := range x.s {
		script := scriptOf(r)
		if script == 0 {
			continue
		}
		if script != last {
			if start >= 0 && !next(x.slice(start, i)) {
				return false
			}
			start = i
		}
		last = script
	}
	return start < 0 || next(x.slice(start, len(x.s)))
}
