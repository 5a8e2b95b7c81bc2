package token

import "slices"

// unkPenalty is how much less an unknown character scores than the worst token.
const unkPenalty = 10

// unigram is the unigram language model (Kudo 2018): of all ways to divide a word into tokens it takes that of the
// highest sum of scores, found by Viterbi's algorithm.
type unigram struct {
	barredSet
	tree *prefixTree
	// scores[id] is a token's log probability.
	scores []float64
	// unk is the unknown token, unkScore what one unknown character scores.
	unk      uint32
	unkScore float64
	fallback byteTokens
	// single computes as SentencePiece does, see newPieces.
	single bool
	cache  wordCache
}

// newUnigram returns the model of a list of tokens with their scores.
func newUnigram(words []treeWord, scores []float64, unk uint32, byteFallback bool) *unigram {
	m := &unigram{tree: newPrefixTree(words), scores: scores, unk: unk, cache: newWordCache()}
	m.unkScore = slices.Min(scores) - unkPenalty
	if byteFallback {
		m.fallback = newByteTokens(m.tree.find)
	}
	return m
}

// encode implements model.
func (m *unigram) encode(word string, out []symbol) []symbol {
	if len(word) > maxCachedWord {
		return m.best(word, out, nil)
	}
	h := m.cache.hash(word)
	if e := m.cache.find(h, word); e != nil {
		return append(out, e.symbols...)
	}
	n := len(out)
	out = m.best(word, out, nil)
	m.cache.put(h, word, out[n:])
	return out
}

// withoutBarred implements model.
func (m *unigram) withoutBarred(word string, out []symbol) []symbol {
	return m.best(word, out, m.barredSet)
}

// pathEnd is the best way to divide the text up to a place.
type pathEnd struct {
	score float64
	start int32 // where its last token starts, -1 if there is no way
	unk   bool  // that token is unknown
	id    uint32
}

// best appends the tokens of the best division without skipped ones. It takes time in proportion to the bytes of word,
// times those of the longest token.
func (m *unigram) best(word string, out []symbol, skip barredSet) []symbol {
	ends := make([]pathEnd, len(word)+1)
	for i := range ends {
		ends[i].start = -1
	}
	for start := 0; start < len(word); {
		_, n := runeAt(word, start)
		before, single := ends[start].score, false
		offer := func(end int, score float64, id uint32, unk bool) {
			sum := before + score
			if m.single {
				sum = float64(float32(before) + float32(score))
			}
			if e := &ends[end]; e.start < 0 || sum > e.score {
				*e = pathEnd{sum, int32(start), unk, id}
			}
		}
		at := int32(0)
		for i := start; i < len(word); i++ {
			if at = m.tree.step(at, word[i]); at == 0 {
				break
			}
			if id := m.tree.nodes[at].id; id >= 0 && !skip[uint32(id)] {
				offer(i+1, m.scores[id], uint32(id), uint32(id) == m.unk)
				single = single || i+1-start == n
			}
		}
		if !single {
			offer(start+n, m.unkScore, m.unk, true)
		}
		start += n
	}
	return m.collect(word, ends, out, skip)
}

// collect appends the tokens of the best division, from its end to its start, and turns them around.
func (m *unigram) collect(word string, ends []pathEnd, out []symbol, skip barredSet) []symbol {
	from := len(out)
	for end := len(word); end > 0; {
		e := ends[end]
		start := int(e.start)
		if !e.unk {
			out = append(out, symbol{id: e.id, size: int32(end - start)})
			end = start
			continue
		}
		for start > 0 && ends[start].unk { // unknown tokens side by side are one
			start = int(ends[start].start)
		}
		out = m.unknown(word[start:end], out, skip)
		end = start
	}
	slices.Reverse(out[from:])
	return out
}

// unknown appends the tokens of an unknown text in reverse: itself, if it is a token although its division scored
// more, or those of its bytes, or the unknown token.
func (m *unigram) unknown(s string, out []symbol, skip barredSet) []symbol {
	size := int32(len(s))
	if id, ok := m.tree.find(s); ok && !skip[id] && !m.single {
		return append(out, symbol{id: id, size: size})
	}
	if !m.fallback.covers(s) {
		return append(out, symbol{id: m.unk, size: size, kind: unspelled})
	}
	for i := len(s) - 1; i > 0; i-- {
		out = append(out, symbol{uint32(m.fallback[s[i]]), 0, shared})
	}
	return append(out, symbol{id: uint32(m.fallback[s[0]]), size: size})
}

// findBarred implements model.
func (m *unigram) findBarred(withheld map[uint32]string) {
	m.barredSet = barredOf(withheld, m.tree.find)
}

// segmentEnd implements model.
func (m *unigram) segmentEnd(s string) int { return len(s) }

// longest implements model: without all byte tokens any number of unknown characters is one token.
func (m *unigram) longest() int {
	if !m.fallback.complete() {
		return 0
	}
	return m.tree.deepest
}
