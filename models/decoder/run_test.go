package decoder

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// startRuntime loads ONNX Runtime, which `make ort` fetches.
func startRuntime(t testing.TB) {
	t.Helper()
	path, err := ort.Locate("")
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(path); err != nil {
		t.Fatal(err)
	}
}

// buildTo builds a checkpoint into a folder of the test.
func buildTo(t testing.TB, ck *hf.Checkpoint, opt Options) (Result, string) {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, DataFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Build(ck, f, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ModelFile)
	if err := os.WriteFile(path, r.Model, 0o644); err != nil {
		t.Fatal(err)
	}
	return r, path
}

// machine runs a built model and hands out its cache blocks.
type machine struct {
	t     testing.TB
	model *ort.Paged
	vocab int
	// blockSize is the number of tokens of a cache block.
	blockSize int
	next      int32 // first block that nobody has
	// embeddings are those of the next step.
	embeddings []llm.Embedding
}

// openPaged opens a built model as the server does, with its matrices mapped.
func openPaged(t testing.TB, path string, o ort.Options) *ort.Paged {
	t.Helper()
	matrices, err := MappedMatrices(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range matrices {
		o.Weights = append(o.Weights, ort.Matrix{Name: m.Name, Offset: m.Offset, Shape: m.Dims})
	}
	o.ModelPath, o.WeightsPath = path, filepath.Join(filepath.Dir(path), DataFile)
	p, err := ort.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func runModel(t testing.TB, r Result, path string, blocks int) *machine {
	t.Helper()
	startRuntime(t)
	p := openPaged(t, path, ort.Options{Layers: r.Arch.Layers, KVHeads: r.Arch.KVHeads,
		HeadDim: r.Arch.HeadDim, Cache: ort.CacheForm(r.Layout.Cache), Latent: r.Arch.Latent,
		Vocab: r.Arch.Vocab, MaxLen: r.Arch.MaxPositions, OriginalLen: r.Arch.OriginalPositions, Blocks: blocks,
		Width: r.Arch.Width, Places: r.Arch.Places, KeyEnds: r.Arch.KeyEnds})
	return &machine{t: t, model: p, vocab: r.Arch.Vocab, blockSize: r.Layout.BlockSize}
}

// sequence is one row's tokens and cache blocks; length tokens are cached.
type sequence struct {
	blocks []int32
	length int
	// tokens are those fed; long says that they were computed as those of a sequence beyond the original context.
	tokens []llm.Token
	long   bool
	// pictures are those whose tokens have places.
	pictures []llm.Embedding
}

// feed runs one step that appends tokens[i] to seqs[i], and returns the logits
// of every token.
func (m *machine) feed(seqs []*sequence, tokens [][]llm.Token) [][]float32 {
	m.t.Helper()
	wanted := tokens
	tokens = slices.Clone(tokens)
	for i, q := range seqs {
		q.tokens = append(q.tokens, tokens[i]...)
		if original := m.model.OriginalLen(); original > 0 && len(q.tokens) > original && !q.long {
			q.long, q.length, tokens[i] = true, 0, q.tokens // all of them again
		}
	}
	s := &llm.Step{CuSeqlens: []int32{0}, Embeddings: m.embeddings}
	places := slices.ContainsFunc(seqs, func(q *sequence) bool { return llm.HasPlaces(q.pictures) })
	for i, q := range seqs {
		for len(q.blocks)*m.blockSize < q.length+len(tokens[i]) {
			q.blocks = append(q.blocks, m.next)
			m.next++
		}
		s.MaxBlocks = max(s.MaxBlocks, len(q.blocks))
	}
	for i, q := range seqs {
		s.PastLens = append(s.PastLens, int32(q.length))
		if m.model.OriginalLen() > 0 {
			s.Long = append(s.Long, q.long)
		}
		for range tokens[i] {
			s.SlotMapping = append(s.SlotMapping, q.blocks[q.length/m.blockSize]*int32(m.blockSize)+
				int32(q.length%m.blockSize))
			s.LogitRows = append(s.LogitRows, int32(len(s.LogitRows)))
			q.length++
		}
		if m.model.KeyEnds() {
			s.KeyEnds = llm.AppendKeyEnds(s.KeyEnds, q.pictures, q.length-len(tokens[i]), q.length)
		}
		if places {
			s.Places = llm.AppendPlaces(s.Places, q.pictures, q.length-len(tokens[i]), q.length)
		}
		s.Tokens = append(s.Tokens, tokens[i]...)
		s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
		row := slices.Repeat([]int32{-1}, s.MaxBlocks)
		copy(row, q.blocks)
		s.BlockTable = append(s.BlockTable, row...)
	}
	flat, err := m.model.Forward(s)
	if err != nil {
		m.t.Fatal(err)
	}
	var out [][]float32
	for i := range seqs {
		for at := int(s.CuSeqlens[i+1]) - len(wanted[i]); at < int(s.CuSeqlens[i+1]); at++ {
			out = append(out, slices.Clone(flat[at*m.vocab:(at+1)*m.vocab]))
		}
	}
	return out
}

// prefill feeds one prompt in pieces of the given size, 0 for all at once.
func (m *machine) prefill(q *sequence, prompt []llm.Token, piece int) [][]float32 {
	m.t.Helper()
	if piece == 0 {
		piece = len(prompt)
	}
	q.long = m.model.OriginalLen() > 0 && len(prompt) > m.model.OriginalLen()
	var out [][]float32
	for part := range slices.Chunk(prompt, piece) {
		out = append(out, m.feed([]*sequence{q}, [][]llm.Token{part})...)
	}
	return out
}

// greedy continues all sequences together, each from its last logits.
func (m *machine) greedy(seqs []*sequence, last [][]float32, n int) [][]llm.Token {
	m.t.Helper()
	out := make([][]llm.Token, len(seqs))
	for step := 0; ; step++ {
		next := make([][]llm.Token, len(seqs))
		for i, logits := range last {
			best := llm.Token(0)
			for t, x := range logits {
				if x > logits[best] {
					best = llm.Token(t)
				}
			}
			out[i] = append(out[i], best)
			next[i] = []llm.Token{best}
		}
		if step == n-1 {
			return out
		}
		last = m.feed(seqs, next)
	}
}
