package ort

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"tgi/runtime/llm"
)

// SlabOptions describe a decoder graph that other software made: its cache has one row for each sequence, as long as
// the longest.
type SlabOptions struct {
	// ModelPath is the path of the .onnx file; its weights are beside it.
	ModelPath string
	// IDs, Mask and Logits name the graph's inputs and its output; Positions and Keep (the number of last positions
	// with logits) too, or are empty if it has no such.
	IDs, Mask, Positions, Keep, Logits string
	// PastKey and PastValue name each layer's cache among the inputs, PresentKey and PresentValue among the outputs.
	PastKey, PastValue, PresentKey, PresentValue []string
	// KVHeads and HeadDim are the shape of a token in the cache, which has 16-bit floats if Half.
	KVHeads, HeadDim int
	Half             bool
	// InPlace says that past and present may be the same memory, of rows longer than their sequences, and that rows of
	// different lengths differ by the number of ones that their mask begins with. Else the graph returns a copy, and
	// the cache of a shorter row is padded at its left.
	InPlace bool
	// Alone gives each row runs of its own.
	Alone bool
	// LastOnly says that logits are those of a run's last position.
	LastOnly bool
	Vocab    int
	// RowLen is the number of tokens of a row, and the longest sequence; Rows is how many there are. The system backs
	// their memory, RowBytes() each, on first use.
	RowLen, Rows int
	Threads      int
	Spin         Spin
}

// layers returns the number of layers.
func (o *SlabOptions) layers() int { return len(o.PastKey) }

func (o *SlabOptions) cacheType() element {
	if o.Half {
		return float16s
	}
	return float32s
}

// headBytes is the size of one head of a row in one layer's keys or values.
func (o *SlabOptions) headBytes() int { return o.RowLen * o.HeadDim * o.cacheType().size() }

// RowBytes is the memory of one row in all layers.
func (o *SlabOptions) RowBytes() int { return 2 * o.layers() * o.KVHeads * o.headBytes() }

func (o *SlabOptions) check() error {
	n := o.layers()
	for _, v := range []struct {
		name       string
		value, max int
	}{
		{"PastKey", n, 1 << 12}, {"KVHeads", o.KVHeads, 1 << 12}, {"HeadDim", o.HeadDim, 1 << 12},
		{"Vocab", o.Vocab, 1 << 24}, {"RowLen", o.RowLen, 1 << 28}, {"Rows", o.Rows, 1 << 20},
	} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("option %s is %d, must be between 1 and %d", v.name, v.value, v.max)
		}
	}
	if len(o.PastValue) != n || len(o.PresentKey) != n || len(o.PresentValue) != n {
		return fmt.Errorf("options of the cache name %d, %d, %d and %d tensors", n, len(o.PastValue), len(o.PresentKey),
			len(o.PresentValue))
	}
	if o.Threads < 0 || o.Threads > 1024 {
		return fmt.Errorf("option Threads is %d, must be between 0 and 1024", o.Threads)
	}
	if o.RowBytes() <= 0 || o.Rows > math.MaxInt/o.RowBytes() {
		return fmt.Errorf("option Rows is %d, too large for this machine's address space", o.Rows)
	}
	return nil
}

// Slab runs such a graph on the CPU. It implements the engine's Model; a cache block is a row. Only one goroutine at a
// time may call its methods.
//
// A step has a run for all rows that compute one token, and runs for each longer one: GroupQueryAttention takes several
// tokens after others for one row alone. Rows of a run lie side by side. Where a row ended between others, another one
// is moved into its place; a new one takes a free place, and nothing is moved.
type Slab struct {
	o       SlabOptions
	session *session
	// together and single are the tensors of runs over several rows and over one.
	together, single *slabRun
	cache            pages
	// place is where each block lies in the slab, block the inverse; filled is how many tokens each block has.
	place, block, filled []int
	ids, mask, positions buffer
	keep                 buffer
	logits               typed  // of a run
	out                  buffer // of a step, float32
	past, present        buffer // of a run that is not in place
	wanted               []int32
	notes                []string
}

// OpenSlab loads a graph, reserves its cache and tries the graph out. Init must have succeeded. Errors wrap ErrModel.
// The caller must Close the model.
func OpenSlab(o SlabOptions) (*Slab, error) {
	if Version() == "" {
		return nil, fmt.Errorf("%w: BUG: OpenSlab before Init", ErrLibrary)
	}
	fail := func(err error) error { return fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err) }
	if err := o.check(); err != nil {
		return nil, fail(err)
	}
	if o.Threads == 0 {
		o.Threads = Threads()
	}
	spin := o.Spin == SpinOn || o.Spin == SpinAuto && spinByDefault(o.Threads)
	s := &Slab{o: o}
	for i := range o.Rows {
		s.place, s.block = append(s.place, i), append(s.block, i)
	}
	s.filled = make([]int, o.Rows)
	var err error
	s.session, err = openSession(o.ModelPath, sessionOptions{threads: o.Threads, spin: spin, foreign: true})
	if err == nil {
		err = s.checkTensors()
	}
	if err == nil {
		s.together, err = s.session.slabRun()
	}
	if err == nil {
		s.single, err = s.session.slabRun()
	}
	if err == nil {
		s.cache, err = mapPages(o.Rows * o.RowBytes())
	}
	if err == nil {
		err = s.try()
	}
	if err != nil {
		s.Close()
		return nil, fail(err)
	}
	return s, nil
}

// checkTensors checks that the session has the inputs and outputs of the options. ONNX Runtime may have narrowed their
// dimensions.
func (s *Slab) checkTensors() error {
	in, out, err := s.session.bothTensors()
	if err != nil {
		return err
	}
	logits := float32s
	for _, t := range out {
		if t.name == s.o.Logits && t.kind == float16s {
			logits = float16s
		}
	}
	s.logits.kind = logits
	want := []tensorInfo{{s.o.IDs, int64s, []int64{-1, -1}}, {s.o.Mask, int64s, []int64{-1, -1}}}
	if s.o.Positions != "" {
		want = append(want, tensorInfo{s.o.Positions, int64s, []int64{-1, -1}})
	}
	if s.o.Keep != "" {
		want = append(want, tensorInfo{s.o.Keep, int64s, nil})
	}
	dims := []int64{-1, int64(s.o.KVHeads), -1, int64(s.o.HeadDim)}
	wantOut := []tensorInfo{{s.o.Logits, logits, []int64{-1, -1, int64(s.o.Vocab)}}}
	for i := range s.o.PastKey {
		for _, name := range []string{s.o.PastKey[i], s.o.PastValue[i]} {
			want = append(want, tensorInfo{name, s.o.cacheType(), dims})
		}
		for _, name := range []string{s.o.PresentKey[i], s.o.PresentValue[i]} {
			wantOut = append(wantOut, tensorInfo{name, s.o.cacheType(), dims})
		}
	}
	out = slices.DeleteFunc(out, func(t tensorInfo) bool { // what is not asked for is not computed
		return !slices.ContainsFunc(wantOut, func(w tensorInfo) bool { return w.name == t.name })
	})
	if err := match("output", out, wantOut); err != nil {
		return err
	}
	return match("input", in, want)
}

// Vocab returns the number of logits of a row.
func (s *Slab) Vocab() int { return s.o.Vocab }

// BlockSize returns the tokens of a row.
func (s *Slab) BlockSize() int { return s.o.RowLen }

// Width returns 0: such graphs take no vectors in place of tokens.
func (s *Slab) Width() int { return 0 }

// Blocks returns the number of rows.
func (s *Slab) Blocks() int { return s.o.Rows }

// CacheBytes returns the memory of the cache; the system backs it on first use.
func (s *Slab) CacheBytes() int64 { return int64(s.o.Rows) * int64(s.o.RowBytes()) }

// MaxLen returns the maximum length of a sequence.
func (s *Slab) MaxLen() int { return s.o.RowLen }

// OriginalLen returns 0.
func (s *Slab) OriginalLen() int { return 0 }

// ThreadCount returns the number of threads that a step runs on.
func (s *Slab) ThreadCount() int { return s.o.Threads }

// LastOnly reports whether only the last position of a run has logits.
func (s *Slab) LastOnly() bool { return s.o.LastOnly }

// Notes returns sentences about what trying the graph out showed.
func (s *Slab) Notes() []string { return s.notes }

// at is one half (0 for keys, 1 for values) of a layer's cache, from the given place on.
func (s *Slab) at(layer, half, place int) unsafe.Pointer {
	row := s.o.KVHeads * s.o.headBytes()
	return unsafe.Add(s.cache.at, ((2*layer+half)*s.o.Rows+place)*row)
}

// head is one head of a place, in bytes.
func (s *Slab) head(layer, half, place, head int) []byte {
	n := s.o.headBytes()
	return unsafe.Slice((*byte)(unsafe.Add(s.at(layer, half, place), head*n)), n)
}

// eachHead calls f for the heads of two places in all layers.
func (s *Slab) eachHead(a, b int, f func(a, b []byte)) {
	for layer := range s.o.layers() {
		for half := range 2 {
			for h := range s.o.KVHeads {
				f(s.head(layer, half, a, h), s.head(layer, half, b, h))
			}
		}
	}
}

// tokenBytes is the size of n tokens of a head.
func (s *Slab) tokenBytes(n int) int { return n * s.o.HeadDim * s.o.cacheType().size() }

// CopyBlocks copies whole rows, one pair after the other.
func (s *Slab) CopyBlocks(pairs []llm.BlockCopy) error {
	if s.session == nil {
		return fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	for i, c := range pairs {
		if uint32(c.Src) >= uint32(s.o.Rows) || uint32(c.Dst) >= uint32(s.o.Rows) {
			return fmt.Errorf("%w: BUG: copy %d of block %d to %d, of %d blocks", llm.ErrBackend, i, c.Src, c.Dst,
				s.o.Rows)
		}
		n := s.tokenBytes(s.filled[c.Src])
		s.eachHead(s.place[c.Dst], s.place[c.Src], func(to, from []byte) { copy(to[:n], from[:n]) })
		s.filled[c.Dst] = s.filled[c.Src]
	}
	return nil
}

// swap exchanges what lies at two places.
func (s *Slab) swap(a, b int) {
	if a == b {
		return
	}
	x, y := s.block[a], s.block[b]
	n := s.tokenBytes(max(s.filled[x], s.filled[y]))
	var room [4096]byte
	s.eachHead(a, b, func(p, q []byte) {
		for from := 0; from < n; from += len(room) {
			end := min(from+len(room), n)
			part := room[:end-from]
			copy(part, p[from:end])
			copy(p[from:end], q[from:end])
			copy(q[from:end], part)
		}
	})
	s.block[a], s.block[b] = y, x
	s.place[x], s.place[y] = b, a
}

// gather has some blocks lie side by side, with as few moves as there are, and returns them in the order of their
// places.
func (s *Slab) gather(rows []slabRow) {
	inside := make([]bool, s.o.Rows)
	for _, r := range rows {
		inside[s.place[r.block]] = true
	}
	// The window that holds most of them already.
	best, most, have := 0, -1, 0
	for end := range s.o.Rows {
		if inside[end] {
			have++
		}
		begin := end - len(rows) + 1
		if begin < 0 {
			continue
		}
		if begin > 0 && inside[begin-1] {
			have--
		}
		if have > most {
			best, most = begin, have
		}
	}
	hole := best
	for _, r := range rows {
		if at := s.place[r.block]; at < best || at >= best+len(rows) {
			for inside[hole] {
				hole++
			}
			s.swap(at, hole)
			hole++
		}
	}
	slices.SortFunc(rows, func(a, b slabRow) int { return s.place[a.block] - s.place[b.block] })
}

// slabRow is a row's part of a run.
type slabRow struct {
	block, past int
	tokens      []llm.Token
	first       int // index of tokens in those of the step
}

// Forward runs a step and returns the logits of its LogitRows, [len(LogitRows)*Vocab], in their order. The slice is C
// memory: it may be overwritten, and is valid until the next Forward or Close. An invalid step and a failing model give
// errors that wrap llm.ErrBackend; the cache is then undefined at the step's slots and intact elsewhere.
func (s *Slab) Forward(step *llm.Step) ([]float32, error) {
	if s.session == nil {
		return nil, fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	if err := s.checkStep(step); err != nil {
		return nil, fmt.Errorf("%w: BUG: step: %w", llm.ErrBackend, err)
	}
	if err := s.forward(step); err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return unsafe.Slice((*float32)(s.out.at), len(step.LogitRows)*s.o.Vocab), nil
}

// checkStep returns an error for a step that such a graph cannot compute.
func (s *Slab) checkStep(step *llm.Step) error {
	o := bounds{vocab: s.o.Vocab, maxLen: s.o.RowLen, blocks: s.o.Rows, blockSize: s.o.RowLen}
	if err := checkStep(step, o); err != nil {
		return err
	}
	if len(step.Adapters) > 0 {
		return errors.New("rows have Adapters, which the graph does not compute")
	}
	seen := map[int32]bool{}
	for b := range step.Rows() {
		block := step.BlockTable[b*step.MaxBlocks]
		if seen[block] {
			return fmt.Errorf("two rows have the block %d", block)
		}
		seen[block] = true
	}
	if i := slices.Index(step.SlotMapping, -1); i >= 0 {
		return fmt.Errorf("token %d is not to be written", i)
	}
	return nil
}

// forward runs a checked step.
func (s *Slab) forward(step *llm.Step) error {
	if err := s.out.reserve(len(step.LogitRows) * s.o.Vocab * 4); err != nil {
		return err
	}
	// wanted is the index of each token's logits.
	s.wanted = slices.Grow(s.wanted[:0], len(step.Tokens))[:len(step.Tokens)]
	for i := range s.wanted {
		s.wanted[i] = -1
	}
	for i, at := range step.LogitRows {
		s.wanted[at] = int32(i)
	}
	var short, long []slabRow
	for b := range step.Rows() {
		from, to := int(step.CuSeqlens[b]), int(step.CuSeqlens[b+1])
		r := slabRow{int(step.BlockTable[b*step.MaxBlocks]), int(step.PastLens[b]), step.Tokens[from:to], from}
		if r.past == 0 {
			s.filled[r.block] = 0 // what was there is of no use
		}
		if to-from == 1 && !s.o.Alone {
			short = append(short, r)
		} else {
			long = append(long, r)
		}
	}
	if err := s.runShort(short); err != nil {
		return err
	}
	for _, r := range long {
		if err := s.runLong(r); err != nil {
			return err
		}
	}
	return nil
}

// runShort computes rows of one token, as many in a run as can be.
func (s *Slab) runShort(rows []slabRow) error {
	if s.o.InPlace {
		if len(rows) == 0 {
			return nil
		}
		s.gather(rows)
		return s.run(s.together, rows)
	}
	// Rows of about the same length pad each other least.
	slices.SortStableFunc(rows, func(a, b slabRow) int { return b.past - a.past })
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && (s.o.Positions != "" || rows[n].past == rows[0].past) &&
			(n+1)*(rows[0].past+1)*s.rowTokenBytes() <= maxCopy {
			n++
		}
		if err := s.run(s.together, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// maxCopy bounds the copied cache of a run over several rows; a longer one has fewer rows.
const maxCopy = 512 << 20

// rowTokenBytes is the size of a token in the cache of all layers.
func (s *Slab) rowTokenBytes() int { return s.o.RowBytes() / s.o.RowLen }

// maxLogits bounds the logits of a run, unless those of a single token are more. A graph computes those of all tokens.
const maxLogits = 64 << 20

// runLong computes a row, of one run or, where that would have too many logits, of several.
func (s *Slab) runLong(r slabRow) error {
	most := len(r.tokens)
	if !s.o.LastOnly && s.o.Keep == "" {
		most = max(maxLogits/(s.o.Vocab*s.logits.size()), 1)
	}
	for len(r.tokens) > 0 {
		part := r
		part.tokens = r.tokens[:min(most, len(r.tokens))]
		if err := s.run(s.single, []slabRow{part}); err != nil {
			return err
		}
		n := len(part.tokens)
		r.tokens, r.past, r.first = r.tokens[n:], r.past+n, r.first+n
	}
	return nil
}

// Close frees the model and its cache and returns their memory to the system. It must not run during a Forward of the
// same model. It invalidates the last logits and may be called twice.
func (s *Slab) Close() {
	for _, b := range []*slabRun{s.together, s.single} {
		if b != nil {
			b.close()
		}
	}
	s.together, s.single = nil, nil
	if s.session != nil {
		s.session.close()
		s.session = nil
	}
	for _, b := range []*buffer{&s.ids, &s.mask, &s.positions, &s.keep, &s.logits.buffer, &s.out, &s.past, &s.present} {
		b.free()
	}
	s.cache.unmap()
	trimHeap()
}
