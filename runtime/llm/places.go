package llm

// HasPlaces reports whether one of the embeddings of a sequence is a picture in lines, so that its tokens have
// positions other than their indices.
func HasPlaces(list []Embedding) bool {
	for _, e := range list {
		if e.Columns > 0 {
			return true
		}
	}
	return false
}

// AppendPlaces appends the positions, in time, height and width, of tokens from to to of a sequence with these
// embeddings, as in Qwen2.5-VL: text counts up in all three; a picture stands still in time, and its lines and columns
// count up from where it begins; text behind it goes on behind the largest of its positions. They depend on nothing but
// the sequence, however it is cut into steps.
func AppendPlaces(to []int32, list []Embedding, first, end int) []int32 {
	at, next := 0, 0 // a token, and its position
	text := func(until int) {
		for i := max(at, first); i < min(until, end); i++ {
			p := int32(next + i - at)
			to = append(to, p, p, p)
		}
		next, at = next+until-at, until
	}
	for _, e := range list {
		if e.Columns == 0 {
			continue
		}
		text(e.At)
		for i := max(at, first); i < min(e.End(), end); i++ {
			n := i - at
			to = append(to, int32(next), int32(next+n/e.Columns), int32(next+n%e.Columns))
		}
		next, at = next+max(e.Columns, e.N/e.Columns), e.End()
	}
	text(max(end, at))
	return to
}

// Whole returns where a step that computes tokens first to end of a sequence with these embeddings must stop so that it
// cuts no run whose tokens see each other: most, which is first if there is no such place behind it, and least, the
// first such place.
func Whole(list []Embedding, first, end int) (most, least int) {
	most, least = end, first+1
	for _, e := range list {
		if !e.Mutual {
			continue
		}
		if e.At <= first && first < e.End() {
			least = e.End()
		}
		if e.At < end && end < e.End() {
			most = max(e.At, first)
		}
	}
	return most, least
}

// HasMutual reports whether some of the tokens first to end of a sequence with these embeddings see tokens behind them.
func HasMutual(list []Embedding, first, end int) bool {
	for _, e := range list {
		if e.Mutual && e.Cut(first, end).N > 0 {
			return true
		}
	}
	return false
}

// AppendKeyEnds appends, for tokens first to end of a sequence with these embeddings, the position behind the last key
// that each sees.
func AppendKeyEnds(to []int32, list []Embedding, first, end int) []int32 {
	for i := first; i < end; i++ {
		to = append(to, int32(i+1))
	}
	own := to[len(to)-(end-first):]
	for _, e := range list {
		for i := max(e.At, first); e.Mutual && i < min(e.End(), end); i++ {
			own[i-first] = int32(e.End())
		}
	}
	return to
}
