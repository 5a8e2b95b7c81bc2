package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"unicode/utf8"

	"tgi/runtime/llm"
)

// fakeModel keeps, where a real one keeps keys and values, the token and position
// written to each slot. Its logits are a function of the history that it reads back
// through the block table, so that a wrong slot, table, fork, copy or recomputation
// changes what is generated. It refuses steps that break the contract of llm.Step.
type fakeModel struct {
	shape Shape
	slots []slot
	buf   []float32

	mu      sync.Mutex
	fail    error          // what the next Forward returns
	boom    any            // what the next Forward panics with
	steps   int            // forward passes
	maxRows int            // the most rows in one step
	logits  int            // the most logit rows in one step
	mixed   int            // steps that held chunks and single tokens
	copies  int            // copied blocks
	before  func(llm.Step) // called at the start of each Forward
}

type slot struct {
	token llm.Token
	pos   int32
	set   bool
}

func newFake(blocks, blockSize, maxLen int) *fakeModel {
	return &fakeModel{
		shape: Shape{Vocab: len(pieces), BlockSize: blockSize, Blocks: blocks, MaxLen: maxLen, Width: 2},
		slots: make([]slot, blocks*blockSize),
	}
}

func (m *fakeModel) Shape() Shape { return m.shape }

func (m *fakeModel) CopyBlocks(pairs []llm.BlockCopy) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.shape.BlockSize
	for _, c := range pairs {
		copy(m.slots[int(c.Dst)*n:int(c.Dst+1)*n], m.slots[int(c.Src)*n:int(c.Src+1)*n])
		m.copies++
	}
	return nil
}

func (m *fakeModel) Forward(s *llm.Step) ([]float32, error) {
	if m.before != nil {
		m.before(*s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps++
	if err, boom := m.fail, m.boom; err != nil || boom != nil {
		m.fail, m.boom = nil, nil
		m.scribble(s)
		if boom != nil {
			panic(boom)
		}
		return nil, err
	}
	m.maxRows = max(m.maxRows, s.Rows())
	m.logits = max(m.logits, len(s.LogitRows))
	if err := m.write(s); err != nil {
		return nil, err
	}
	v := m.shape.Vocab
	if need := len(s.LogitRows) * v; cap(m.buf) < need {
		m.buf = make([]float32, need)
	}
	m.buf = m.buf[:len(s.LogitRows)*v]
	row := 0
	for i, at := range s.LogitRows {
		for int(s.CuSeqlens[row+1]) <= int(at) {
			row++
		}
		h, err := m.history(s, row, int(s.PastLens[row])+int(at-s.CuSeqlens[row])+1)
		if err != nil {
			return nil, err
		}
		logitsOf(h, m.buf[i*v:(i+1)*v])
	}
	return m.buf, nil
}

// scribble leaves nonsense behind, as a pass that broke off may.
func (m *fakeModel) scribble(s *llm.Step) {
	for _, at := range s.SlotMapping {
		m.slots[at] = slot{token: 1, pos: -7, set: true}
	}
}

// write checks the step and puts its tokens into their slots.
func (m *fakeModel) write(s *llm.Step) error {
	T, B := len(s.Tokens), s.Rows()
	if T == 0 || B == 0 || len(s.CuSeqlens) != B+1 || int(s.CuSeqlens[B]) != T || s.CuSeqlens[0] != 0 ||
		len(s.SlotMapping) != T || len(s.BlockTable) != B*s.MaxBlocks {
		return errors.New("fake: the step's sizes do not fit together")
	}
	if len(s.Places) != 0 && len(s.Places) != 3*T {
		return fmt.Errorf("fake: %d places of %d tokens", len(s.Places), T)
	}
	tokens, err := embedded(s)
	if err != nil {
		return err
	}
	single, chunk := false, false
	writer := map[int32]int{} // block -> row
	for b := range B {
		from, to := s.CuSeqlens[b], s.CuSeqlens[b+1]
		single, chunk = single || to-from == 1, chunk || to-from > 1
		if to <= from {
			return fmt.Errorf("fake: row %d has no tokens", b)
		}
		table := s.BlockTable[b*s.MaxBlocks : (b+1)*s.MaxBlocks]
		for i := from; i < to; i++ {
			pos := int(s.PastLens[b] + i - from)
			blk := table[pos/m.shape.BlockSize]
			if at := int(blk)*m.shape.BlockSize + pos%m.shape.BlockSize; blk < 0 || int(s.SlotMapping[i]) != at {
				return fmt.Errorf("fake: row %d position %d: slot %d, block %d", b, pos, s.SlotMapping[i], blk)
			}
			if other, ok := writer[blk]; ok && other != b {
				return fmt.Errorf("fake: rows %d and %d write block %d", other, b, blk)
			}
			writer[blk] = b
			m.slots[s.SlotMapping[i]] = slot{tokens[i] + away(s, int(i), int32(pos)), int32(pos), true}
		}
	}
	for b := range B { // nobody reads what another row writes in this step
		for _, blk := range s.BlockTable[b*s.MaxBlocks : (b+1)*s.MaxBlocks] {
			if w, ok := writer[blk]; ok && w != b {
				return fmt.Errorf("fake: row %d reads block %d that row %d writes", b, blk, w)
			}
		}
	}
	if single && chunk {
		m.mixed++
	}
	return nil
}

// embedded returns the step's tokens, with those that embeddings name in their place: a vector is a token, twice.
func embedded(s *llm.Step) ([]llm.Token, error) {
	tokens, end := slices.Clone(s.Tokens), 0
	for _, e := range s.Embeddings {
		if e.At < end || e.N < 1 || e.End() > len(tokens) || len(e.Vectors) != 2*e.N {
			return nil, fmt.Errorf("fake: an embedding of tokens %d to %d, after %d of %d", e.At, e.End(), end, len(tokens))
		}
		end = e.End()
		for i := range e.N {
			if e.Vectors[2*i] != e.Vectors[2*i+1] {
				return nil, errors.New("fake: half a vector")
			}
			tokens[e.At+i] = llm.Token(e.Vectors[2*i])
		}
	}
	return tokens, nil
}

// away is a number for how far the places of a token are from its index; 0 if they are that.
func away(s *llm.Step, i int, pos int32) (sum llm.Token) {
	if len(s.Places) > 0 {
		for axis, p := range s.Places[3*i:][:3] {
			sum = sum*8191 + llm.Token((p-pos)*int32(axis+3))
		}
	}
	return sum
}

// history reads the first n tokens of a row back out of the cache.
func (m *fakeModel) history(s *llm.Step, row, n int) ([]llm.Token, error) {
	out := make([]llm.Token, n)
	for pos := range n {
		blk := s.BlockTable[row*s.MaxBlocks+pos/m.shape.BlockSize]
		sl := m.slots[int(blk)*m.shape.BlockSize+pos%m.shape.BlockSize]
		if !sl.set || int(sl.pos) != pos {
			return nil, fmt.Errorf("fake: row %d position %d holds position %d", row, pos, sl.pos)
		}
		out[pos] = sl.token
	}
	return out, nil
}

// logitsOf is the fake's whole knowledge of language.
func logitsOf(history []llm.Token, logits []float32) {
	h := uint64(len(history)) * 0x9e3779b97f4a7c15
	for _, t := range history {
		h = (h ^ uint64(t)) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	r := rand.New(rand.NewPCG(h, 1))
	for i := range logits {
		logits[i] = float32(r.NormFloat64()) * 2
	}
	logits[tokEOS] -= 3
}

// pieces is the fake's vocabulary: two special tokens, single bytes of the euro
// sign, and short words.
var pieces = func() []string {
	p := []string{"</s>", "<sp>", "\xe2", "\x82", "\xac"}
	for _, a := range "abcdefgh" {
		for _, b := range []string{"", " ", "a", "b", "bc", "h é"} {
			p = append(p, string(a)+b)
		}
	}
	return p
}()

const (
	tokEOS  = 0
	tokSP   = 1
	tokEuro = 2 // and the two after it
)

// fakeCodec spells tokens as pieces does.
type fakeCodec struct{}

func (fakeCodec) Special(id llm.Token) bool { return id == tokEOS || id == tokSP }
func (fakeCodec) Text(id llm.Token) string  { return pieces[id] }
func (fakeCodec) EOS() []llm.Token          { return []llm.Token{tokEOS} }

func (fakeCodec) Stream(context []llm.Token) Detokenizer {
	d := &fakeDetok{}
	for _, t := range context {
		d.Next(t)
	}
	return d
}

type fakeDetok struct{ held []byte }

func (d *fakeDetok) Next(id llm.Token) string {
	d.held = append(d.held, pieces[id]...)
	var out []byte
	for len(d.held) > 0 && utf8.FullRune(d.held) {
		r, n := utf8.DecodeRune(d.held)
		out = utf8.AppendRune(out, r)
		d.held = d.held[n:]
	}
	return string(out)
}

func (d *fakeDetok) Open() bool { return len(d.held) > 0 }

func (d *fakeDetok) Flush() string {
	out := ""
	for range d.held {
		out = "\uFFFD"
	}
	d.held = nil
	return out
}
