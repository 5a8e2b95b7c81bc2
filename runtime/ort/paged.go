package ort

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"tgi/runtime/llm"
)

// BlockSize is the number of tokens of a cache block.
const BlockSize = 16

// Spin selects whether the idle threads of a session spin or sleep.
type Spin int

const (
	// SpinAuto spins if there are more than 4 threads and no CPU quota.
	SpinAuto Spin = iota
	// SpinOn is faster on an idle machine, and much slower on a busy one.
	SpinOn
	// SpinOff lets idle threads sleep.
	SpinOff
)

// Options describe a built model and the cache to run it with.
type Options struct {
	// ModelPath is the path of the .onnx file; its weights are beside it.
	ModelPath string
	// Layers, KVHeads and HeadDim are the shape of the cache.
	Layers, KVHeads, HeadDim int
	// Vocab is the number of logits of a row.
	Vocab int
	// MaxLen is the maximum length of a sequence: the number of positions of the model.
	MaxLen int
	// Blocks is the number of cache blocks of BlockSize tokens. The system backs their
	// memory, BlockBytes() each, on first use.
	Blocks int
	// Threads is how many threads a step runs on; 0 is Threads().
	Threads int
	// Spin selects whether these threads spin or sleep while idle.
	Spin Spin
}

// BlockBytes returns the memory of one cache block over all layers.
func (o Options) BlockBytes() int { return 2 * o.Layers * o.blockFloats() * 4 }

// blockFloats returns the floats of one block's keys, or values, in one layer.
func (o Options) blockFloats() int { return o.KVHeads * o.HeadDim * BlockSize }

// check returns an error for the first option that is out of range.
func (o Options) check() error {
	for _, v := range []struct {
		name  string
		value int
		max   int
	}{
		{"Layers", o.Layers, 1 << 12},
		{"KVHeads", o.KVHeads, 1 << 12},
		{"HeadDim", o.HeadDim, 256},
		{"Vocab", o.Vocab, 1 << 24},
		{"MaxLen", o.MaxLen, 1 << 28},
		{"Blocks", o.Blocks, math.MaxInt32 / BlockSize},
	} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("option %s is %d, must be between 1 and %d", v.name, v.value, v.max)
		}
	}
	if o.HeadDim%8 != 0 {
		return fmt.Errorf("option HeadDim is %d, must be a multiple of 8", o.HeadDim)
	}
	if o.Threads < 0 || o.Threads > 1024 {
		return fmt.Errorf("option Threads is %d, must be between 0 and 1024", o.Threads)
	}
	if o.Blocks > math.MaxInt/o.BlockBytes() {
		return fmt.Errorf("option Blocks is %d, too large for this machine's address space", o.Blocks)
	}
	return nil
}

// Paged runs a decoder graph over a paged KV cache on the CPU. It implements the engine's
// Model. Only one goroutine at a time may call its methods.
type Paged struct {
	o       Options
	session *session
	cache   pages
	inputs  map[string]*buffer // by name
	logits  buffer
}

// stepInputs are the graph's inputs for a step, by name.
var stepInputs = map[string]element{
	"input_ids":    int64s,
	"cu_seqlens":   int32s,
	"past_lens":    int32s,
	"block_table":  int32s,
	"slot_mapping": int32s,
	"logit_rows":   int64s,
}

// Open loads a model and reserves its cache. Init must have succeeded; before it the error wraps
// ErrLibrary, otherwise ErrModel. The caller must Close the model.
func Open(o Options) (*Paged, error) {
	if Version() == "" {
		return nil, fmt.Errorf("%w: BUG: Open before Init", ErrLibrary)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	if o.Threads == 0 {
		o.Threads = Threads()
	}
	spin := o.Spin == SpinOn || o.Spin == SpinAuto && spinByDefault(o.Threads)
	p := &Paged{o: o, inputs: map[string]*buffer{}}
	var err error
	if p.session, err = openSession(o.ModelPath, sessionOptions{threads: o.Threads, spin: spin}); err == nil {
		err = p.bindCache()
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	return p, nil
}

// bindCache checks the model's inputs and outputs, reserves the cache and binds it.
func (p *Paged) bindCache() error {
	if err := checkTensors(p.session, p.o); err != nil {
		return err
	}
	floats := p.o.blockFloats()
	var err error
	if p.cache, err = mapPages(p.o.Blocks * p.o.BlockBytes()); err != nil {
		return fmt.Errorf("reserving the cache: %w", err)
	}
	for layer := range p.o.Layers {
		for half, prefix := range []string{"k_cache", "v_cache"} {
			name := fmt.Sprintf("%s.%d", prefix, layer)
			at := unsafe.Pointer(&p.layerCache(layer, half)[0])
			if err := p.session.bind(false, name, float32s, at, int64(p.o.Blocks), int64(floats)); err != nil {
				return err
			}
		}
	}
	for name := range stepInputs {
		p.inputs[name] = &buffer{}
	}
	return nil
}

// layerCache returns the keys (half 0) or values (half 1) of a layer, all blocks.
func (p *Paged) layerCache(layer, half int) []float32 {
	n := p.o.Blocks * p.o.blockFloats()
	all := unsafe.Slice((*float32)(p.cache.at), 2*p.o.Layers*n)
	return all[(2*layer+half)*n:][:n]
}

// Vocab returns the number of logits of a row.
func (p *Paged) Vocab() int { return p.o.Vocab }

// BlockSize returns the tokens of a cache block.
func (p *Paged) BlockSize() int { return BlockSize }

// Blocks returns the number of cache blocks.
func (p *Paged) Blocks() int { return p.o.Blocks }

// MaxLen returns the maximum length of a sequence.
func (p *Paged) MaxLen() int { return p.o.MaxLen }

// ThreadCount returns the number of threads that a step runs on.
func (p *Paged) ThreadCount() int { return p.o.Threads }

// Forward runs a step and returns the logits of its LogitRows, [len(LogitRows)*Vocab], in the
// order of the rows. The slice is C memory: it may be overwritten, and is valid until the next
// Forward or Close. An invalid step and a failing model give errors that wrap llm.ErrBackend;
// the cache is then undefined at the step's slots and intact elsewhere.
func (p *Paged) Forward(s *llm.Step) ([]float32, error) {
	if p.session == nil {
		return nil, fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	if err := checkStep(s, p.o); err != nil {
		return nil, fmt.Errorf("%w: BUG: step: %w", llm.ErrBackend, err)
	}
	logits, err := p.forward(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return logits, nil
}

func (p *Paged) forward(s *llm.Step) ([]float32, error) {
	tokens, batch := int64(len(s.Tokens)), int64(s.Rows())
	err := errors.Join(
		bindStep[int64](p, "input_ids", s.Tokens, tokens),
		bindStep[int32](p, "cu_seqlens", s.CuSeqlens, batch+1),
		bindStep[int32](p, "past_lens", s.PastLens, batch),
		bindStep[int32](p, "block_table", s.BlockTable, batch, int64(s.MaxBlocks)),
		bindStep[int32](p, "slot_mapping", s.SlotMapping, tokens),
		bindStep[int64](p, "logit_rows", s.LogitRows, int64(len(s.LogitRows))),
		p.bindLogits(len(s.LogitRows)),
	)
	if err != nil {
		return nil, err
	}
	if err := p.session.run(); err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(p.logits.at), len(s.LogitRows)*p.o.Vocab), nil
}

// bindStep copies one input of the step into C memory and binds it.
func bindStep[To, From int32 | int64 | uint32](p *Paged, name string, values []From, shape ...int64) error {
	buf := p.inputs[name]
	if err := fill[To](buf, values); err != nil {
		return err
	}
	return p.session.bind(false, name, stepInputs[name], buf.at, shape...)
}

func (p *Paged) bindLogits(rows int) error {
	if err := p.logits.reserve(rows * p.o.Vocab * 4); err != nil {
		return err
	}
	return p.session.bind(true, "logits", float32s, p.logits.at, int64(rows), int64(p.o.Vocab))
}

// CopyBlocks copies whole cache blocks of all layers, one pair after the other.
func (p *Paged) CopyBlocks(pairs []llm.BlockCopy) error {
	if p.session == nil {
		return fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	for i, c := range pairs {
		if uint32(c.Src) >= uint32(p.o.Blocks) || uint32(c.Dst) >= uint32(p.o.Blocks) {
			return fmt.Errorf("%w: BUG: copy %d of block %d to %d, of %d blocks", llm.ErrBackend, i, c.Src, c.Dst,
				p.o.Blocks)
		}
	}
	n := p.o.blockFloats()
	for layer := range p.o.Layers {
		for half := range 2 {
			part := p.layerCache(layer, half)
			for _, c := range pairs {
				copy(part[int(c.Dst)*n:][:n], part[int(c.Src)*n:][:n])
			}
		}
	}
	return nil
}

// Close frees the model and its cache and returns their memory to the system. It must not run
// during a Forward of the same model. It invalidates the last logits and may be called twice.
func (p *Paged) Close() {
	if p.session != nil {
		p.session.close()
		p.session = nil
	}
	for _, buf := range p.inputs {
		buf.free()
	}
	p.inputs = nil
	p.logits.free()
	p.cache.unmap()
	trimHeap()
}
