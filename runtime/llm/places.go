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
