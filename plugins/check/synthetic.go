package check

import (
	"math"
	"math/rand/v2"
	"sync"
	"unicode/utf8"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// MinVocabulary is the smallest vocabulary that [Bench] makes: all bytes, some words, and two special tokens.
const MinVocabulary = 512

// synthetic is a vocabulary made for measurements, of any size: the 256 bytes, a few English words, made-up ones of
// which half begin with a space, <s> and </s>. The same size gives the same vocabulary. It implements guest.Vocabulary
// and, for init alone, the kit's Host.
type synthetic struct {
	words   [][]byte
	ids     map[string]uint32
	longest int
	random  *rand.Rand
}

// fullVocabulary is one of DefaultVocabulary tokens, made once.
var fullVocabulary = sync.OnceValue(func() *synthetic { return newSynthetic(DefaultVocabulary) })

// Vocabulary is one for trying modules where no model is at hand, as large as models have them.
func Vocabulary() guest.Vocabulary { return fullVocabulary() }

func newSynthetic(size int) *synthetic {
	v := &synthetic{ids: make(map[string]uint32, size), random: rand.New(rand.NewPCG(1, 2))}
	for b := range 256 {
		v.add(string([]byte{byte(b)}))
	}
	for _, word := range []string{" the", " of", " and", " to", " a", " in", "the", "ing", "  ", "\n\n"} {
		v.add(word)
	}
	for len(v.words) < size-2 {
		word := ""
		if v.random.IntN(2) == 0 {
			word = " "
		}
		for range 1 + v.random.IntN(4) {
			word += string("bcdfghklmnprstvwz"[v.random.IntN(17)]) + string("aeiou"[v.random.IntN(5)])
		}
		if _, ok := v.ids[word]; ok {
			word += string(rune('a' + v.random.IntN(26))) // short words run out
		}
		if _, ok := v.ids[word]; !ok {
			v.add(word)
		}
	}
	v.add("<s>")
	v.add("</s>")
	return v
}

func (v *synthetic) add(word string) {
	v.ids[word] = uint32(len(v.words))
	v.words = append(v.words, []byte(word))
	v.longest = max(v.longest, len(word))
}

// Size implements guest.Vocabulary.
func (v *synthetic) Size() int { return len(v.words) }

// Bytes implements guest.Vocabulary.
func (v *synthetic) Bytes(id uint32) []byte {
	if int(id) >= len(v.words) {
		return nil
	}
	return v.words[id]
}

// Flags implements guest.Vocabulary.
func (v *synthetic) Flags(id uint32) uint32 {
	switch len(v.words) - int(id) {
	case 1:
		return abi.TokenSpecial | abi.TokenEnd
	case 2:
		return abi.TokenSpecial
	}
	return 0
}

// Encode implements guest.Vocabulary: the longest word that fits, from left to right.
func (v *synthetic) Encode(text string) []uint32 {
	ids, _ := v.host().Encode(text)
	return ids
}

// EncodeData implements guest.Vocabulary.
func (v *synthetic) EncodeData(text string) []uint32 { return vocabulary{v.host()}.EncodeData(text) }

func (v *synthetic) host() syntheticHost { return syntheticHost{v} }

// syntheticHost answers imports by the vocabulary.
type syntheticHost struct{ v *synthetic }

// Log implements kit.Host.
func (syntheticHost) Log(uint32, string) {}

// VocabSize implements kit.Host.
func (h syntheticHost) VocabSize() uint32 { return uint32(len(h.v.words)) }

// TokenBytes implements kit.Host.
func (h syntheticHost) TokenBytes(id uint32) ([]byte, bool) {
	b := h.v.Bytes(id)
	return b, b != nil
}

// TokenFlags implements kit.Host.
func (h syntheticHost) TokenFlags(id uint32) (uint32, bool) {
	return h.v.Flags(id), int(id) < len(h.v.words)
}

// Encode implements kit.Host.
func (h syntheticHost) Encode(text string) (ids []uint32, ok bool) {
	if !utf8.ValidString(text) {
		return nil, false
	}
	for text != "" {
		n := min(h.v.longest, len(text))
		id, ok := h.v.ids[text[:n]]
		for ; !ok; id, ok = h.v.ids[text[:n]] {
			n--
		}
		ids, text = append(ids, id), text[n:]
	}
	return ids, true
}

// Rand implements kit.Host.
func (h syntheticHost) Rand() uint64 { return h.v.random.Uint64() }

// rowKinds is how many different rows take turns.
const rowKinds = 8

// rows are synthetic logits, shaped as Zipf's law has them: the logit falls with the logarithm of the rank. Each row
// has the same tokens in another order.
type rows struct {
	size   int
	byRank []uint32 // ids of the first row
	logits []float32
	// logprobs go with logits, both by rank.
	logprobs []float32
	zipf     *rand.Zipf
}

// steepness is that of natural text, roughly: the second token has half the first one's probability.
const steepness = 1.2

func newRows(size int, seed uint64) *rows {
	random := rand.New(rand.NewPCG(seed, 1))
	r := &rows{size: size, byRank: make([]uint32, size), logits: make([]float32, size), logprobs: make([]float32, size),
		zipf: rand.NewZipf(random, steepness, 1, uint64(size-1))}
	var sum float64
	for rank, id := range random.Perm(size) {
		l := 12 - steepness*math.Log(float64(rank+1))
		r.byRank[rank], r.logits[rank] = uint32(id), float32(l)
		sum += math.Exp(l)
	}
	for rank, l := range r.logits {
		r.logprobs[rank] = l - float32(math.Log(sum))
	}
	return r
}

// id is the token of a rank in the row of a step: rows turn by a part of the vocabulary.
func (r *rows) id(step, rank int) uint32 {
	return uint32((int(r.byRank[rank]) + step%rowKinds*(r.size/rowKinds)) % r.size)
}

// fill writes the row of a step.
func (r *rows) fill(step int, to []float32) {
	for rank, l := range r.logits {
		to[r.id(step, rank)] = l
	}
}

// draw picks a token as a sampler would, of those that row allows; special ones are left out.
func (r *rows) draw(step int, row []float32) uint32 {
	first := int(r.zipf.Uint64())
	for i := range r.size {
		if id := r.id(step, (first+i)%r.size); int(id) < r.size-2 && !math.IsInf(float64(row[id]), -1) {
			return id
		}
	}
	return 0
}
