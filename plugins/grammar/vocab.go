package grammar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// Vocabulary is a tokenizer's tokens. It must not change.
type Vocabulary interface {
	// Size is the number of ids: they are 0 to Size-1.
	Size() int
	// Bytes returns the bytes of a token, the text of a special one; nil if there is no such token.
	Bytes(id uint32) []byte
	// Flags returns abi.TokenSpecial and abi.TokenEnd of an existing token.
	Flags(id uint32) uint32
}

// maxToken is the maximum length in bytes of a token that is matched by its bytes; longer ones never are.
const maxToken = 4096

// Vocab is a vocabulary prepared for masks: its tokens as tries, and slices of those that are allowed inside any
// string. One is made per tokenizer, at load, and shared by all grammars; it is safe for concurrent use. At 128k tokens
// it takes about 20 MiB, plus its cache of masks.
type Vocab struct {
	size    int
	words   int
	texts   []string // by id; "" where a token is not matched by its bytes
	special map[string]uint32
	ends    []uint32
	twins   [][2]uint32 // duplicates: the id of the first token with the same bytes, then the duplicate's
	twinned map[uint32][]uint32
	normal  []uint32 // the tokens matched by their bytes, as a mask
	known   []uint32 // the existing ids
	all     *trie
	shapes  *shapes
	buckets []lengthBucket // by length
	slices  []slice
	cache   *cache
	scratch sync.Pool // *scratch
}

// slice is a part of the vocabulary that is allowed as a whole wherever chars characters of all kinds are allowed in a
// string.
type slice struct {
	chars int // at most so many characters; or endless
	words []uint32
	count int
	rest  *trie // the other tokens
}

// NewVocab prepares v, within a fraction of a second at 128k tokens. cacheBytes
// bounds the cache of masks; 0 means 64 MiB.
func NewVocab(v Vocabulary, cacheBytes int64) *Vocab {
	if cacheBytes == 0 {
		cacheBytes = 64 << 20
	}
	n := v.Size()
	p := &Vocab{
		size: n, words: (n + 31) / 32, texts: make([]string, n), special: map[string]uint32{},
		twinned: map[uint32][]uint32{}, cache: newCache(cacheBytes),
	}
	p.scratch.New = func() any { return &scratch{} }
	p.normal, p.known = make([]uint32, p.words), make([]uint32, p.words)
	tokens := make([]tokenText, 0, n)
	for id := range uint32(n) {
		b := v.Bytes(id)
		if b == nil {
			continue
		}
		setBit(p.known, id)
		f := v.Flags(id)
		if f&abi.TokenEnd != 0 {
			p.ends = append(p.ends, id)
		}
		if f&(abi.TokenSpecial|abi.TokenEnd) != 0 {
			if _, ok := p.special[string(b)]; !ok {
				p.special[string(b)] = id
			}
		} else if len(b) > 0 && len(b) <= maxToken {
			p.texts[id] = string(b)
			setBit(p.normal, id)
			tokens = append(tokens, tokenText{p.texts[id], id})
		}
	}
	slices.SortFunc(tokens, func(x, y tokenText) int {
		if d := strings.Compare(x.text, y.text); d != 0 {
			return d
		}
		return int(x.id) - int(y.id)
	})
	tokens = slices.DeleteFunc(tokens, func() func(tokenText) bool {
		var last tokenText
		return func(s tokenText) bool {
			if s.text == last.text {
				p.twins = append(p.twins, [2]uint32{last.id, s.id})
				p.twinned[last.id] = append(p.twinned[last.id], s.id)
				return true
			}
			last = s
			return false
		}
	}())
	p.build(tokens)
	return p
}

func (p *Vocab) build(tokens []tokenText) {
	p.slices = []slice{{chars: endless}, {chars: 32}, {chars: 16}}
	chars := make([]int, len(tokens)) // of safe tokens, otherwise 0
	for i, t := range tokens {
		if safe(t.text) {
			chars[i] = utf8.RuneCountInString(t.text)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		p.all = newTrie(tokens)
		p.all.survey()
		p.all.surveyBytes()
	})
	for i := range p.slices {
		s := &p.slices[i]
		wg.Go(func() {
			s.words = make([]uint32, p.words)
			var rest []tokenText
			for j, t := range tokens {
				if chars[j] > 0 && chars[j] <= s.chars {
					setBit(s.words, t.id)
					s.count++
				} else {
					rest = append(rest, t)
				}
			}
			p.addTwins(s.words)
			s.rest = newTrie(rest)
			s.rest.survey()
		})
	}
	wg.Wait()
	wg.Go(func() { p.shapes = newShapes(p.all) })
	wg.Go(func() { p.buildBuckets(tokens) })
	for i := range p.slices {
		wg.Go(func() { p.slices[i].rest.within(p.all) })
	}
	wg.Wait()
}

// addTwins adds the duplicates of tokens in words.
func (p *Vocab) addTwins(words []uint32) {
	for _, t := range p.twins {
		if hasBit(words, t[0]) {
			setBit(words, t[1])
		}
	}
}

// safe reports whether text consists of whole characters that need no escape in strings of JSON and most languages.
func safe(text string) bool {
	for i := 0; i < len(text); i++ {
		if !safeASCII.has(text[i]) && text[i] < utf8.RuneSelf {
			return false
		}
	}
	return utf8.ValidString(text)
}

var safeASCII = func() (s byteSet) {
	s.addRange(0x20, 0x7E)
	quote, backslash := byteSetOf('"'), byteSetOf('\\')
	return s.minus(quote).minus(backslash)
}()

// Words is the length of a mask: a bit for each id, in words of 32.
func (p *Vocab) Words() int { return p.words }

// Bytes is about how much memory the vocabulary takes, without its cache.
func (p *Vocab) Bytes() int64 {
	n := p.all.bytes() + p.shapes.bytes() + int64(p.size)*16 + int64(p.words)*4
	for _, s := range p.texts {
		n += int64(len(s))
	}
	for _, s := range p.slices {
		n += s.rest.bytes() + int64(p.words)*4
	}
	for _, l := range p.buckets {
		n += l.trie.bytes() + int64(p.words)*4
	}
	return n
}

// named returns the token with this spelling; special ones take precedence.
func (p *Vocab) named(text string) (uint32, error) {
	if id, ok := p.special[text]; ok {
		return id, nil
	}
	if n := p.all.find([]byte(text)); n >= 0 && p.all.nodes[n].token != noToken {
		return p.all.nodes[n].token, nil
	}
	return 0, fmt.Errorf("%w: %q", ErrToken, text)
}

func (p *Vocab) exists(id uint32) bool { return id < uint32(p.size) && hasBit(p.known, id) }

func setBit(words []uint32, id uint32) { words[id>>5] |= 1 << (id & 31) }

func hasBit(words []uint32, id uint32) bool { return words[id>>5]>>(id&31)&1 != 0 }

// scratch holds the buffers of one walk.
type scratch struct {
	terms  []*term
	covers []cover
	likes  []*term
	sets   []*set
	ids    []uint32
	open   []opening
	wide   []opening // like open, for shapes
}
