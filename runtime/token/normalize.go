package token

// normalizer is one stage of the file's normalizer.
type normalizer interface {
	normalize(x text) text
	// shrink returns how many times shorter a text may become, in bytes; 0 is any number.
	shrink() int
}

// normalizers runs one after another.
type normalizers []normalizer

func (ns normalizers) normalize(x text) text {
	late := x.late
	for _, n := range ns {
		x = n.normalize(x)
		late = late || x.late
	}
	x.late = late
	return x
}

func (f form) normalize(x text) text { return f.apply(x) }

// lowercase is the Lowercase normalizer.
type lowercase struct{}

func (lowercase) normalize(x text) text {
	changed := false
	edits := make([]edit, 0, len(x.s))
	for _, r := range x.s {
		if r == 'İ' { // the one character whose lower case is two
			edits = append(edits, edit{'i', 0}, edit{'\u0307', 1})
			changed = true
			continue
		}
		low := toLower(r)
		changed = changed || low != r
		edits = append(edits, edit{low, 0})
	}
	if !changed {
		return x
	}
	return x.transform(edits, 0)
}

// strip is the Strip normalizer.
type strip struct{ left, right bool }

func (n strip) normalize(x text) text {
	start, end := 0, len(x.s)
	if n.left {
		start = trimLeft(x.s, 0)
	}
	if n.right {
		end = trimRight(x.s, end)
	}
	if start == 0 && end == len(x.s) {
		return x
	}
	if start >= end {
		return text{base: x.base, whole: x.whole}
	}
	// Keep the base: a stripped start of the text is still its start.
	y := x.aligned().slice(start, end)
	y.base = x.base
	return y
}

// prepend is the Prepend normalizer.
type prepend string

func (n prepend) normalize(x text) text { return x.prepend(string(n)) }

// replace is the Replace normalizer.
type replace struct {
	on      *splitter
	content string
}

func (n replace) normalize(x text) text {
	ms, late := n.on.matches(x.s)
	y := x.replace(ms, n.content)
	y.late = x.late || late
	return y
}

// byteLevelNormalizer is the ByteLevel normalizer: it converts to the byte alphabet.
type byteLevelNormalizer struct{}

func (byteLevelNormalizer) normalize(x text) text {
	if x.s == "" {
		return x
	}
	return toByteAlphabet(x)
}
