package ort

// #include "attention.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"tgi/runtime/llm"
)

// blockSize is the number of tokens of a cache block, as the CPU's attention operator has it.
const blockSize = C.PA_BLOCK

// Spin selects whether the idle threads of a session spin or sleep.
type Spin int

const (
	// SpinAuto spins in all steps with more than 4 threads; with fewer, in small steps of quantised models while nobody
	// else wants the cores. Under a CPU quota it never does.
	SpinAuto Spin = iota
	// SpinOn spins for spinTime at most: faster on a quiet machine, and slower on a busy one.
	SpinOn
	// SpinOff lets idle threads sleep.
	SpinOff
)

// CacheForm is what the CPU's cache stores keys and values as. The zero value is CacheFloat32.
type CacheForm string

const (
	// CacheFloat32 stores them as they are.
	CacheFloat32 CacheForm = "float32"
	// CacheFloat16 stores 16-bit floats; what is larger than the largest one is stored as that.
	CacheFloat16 CacheForm = "float16"
	// CacheBFloat16 stores the upper halves of floats, rounded.
	CacheBFloat16 CacheForm = "bfloat16"
	// CacheInt8 stores 8-bit integers, and a 16-bit scale for each 32 numbers of a token's head.
	CacheInt8 CacheForm = "int8"
)

// cacheForms are the operator's numbers of the forms.
var cacheForms = map[CacheForm]C.enum_pa_form{
	"": C.PA_FLOAT32, CacheFloat32: C.PA_FLOAT32, CacheFloat16: C.PA_FLOAT16, CacheBFloat16: C.PA_BFLOAT16,
	CacheInt8: C.PA_INT8,
}

// Options describe a built model and the cache to run it with.
type Options struct {
	// ModelPath is the path of the .onnx file; its weights are beside it.
	ModelPath string
	// Weights are matrices of the file at WeightsPath that are mapped in large pages where the system has them; all
	// others are mapped in its ordinary ones.
	WeightsPath string
	Weights     []Matrix
	// Layers, KVHeads and HeadDim are the shape of the cache.
	Layers, KVHeads, HeadDim int
	// Latent says that values are parts of the keys: the cache holds keys alone.
	Latent bool
	// Cache is what keys and values are stored as.
	Cache CacheForm
	// Vocab is the number of logits of a row.
	Vocab int
	// MaxLen is the maximum length of a sequence: the number of positions of the model.
	MaxLen int
	// OriginalLen, if not 0, is the length beyond which sequences have other rotary frequencies (llm.Step.Long).
	OriginalLen int
	// Blocks is the number of cache blocks of BlockSize() tokens. The system backs their
	// memory, BlockBytes() each, on first use.
	Blocks int
	// Threads is how many threads a step runs on; 0 is Threads().
	Threads int
	// Spin selects whether these threads spin or sleep while idle.
	Spin Spin
	// Adapters counts the matrices to which low-rank adapters may add. The graph then has the input that names them;
	// 0: it has none.
	Adapters int
	// Width is that of a token's vector, if the graph takes embeddings; else 0.
	Width int
	// Places says that the graph takes three positions for each token (llm.Step.Places), KeyEnds that it takes the ends
	// of what they see (llm.Step.KeyEnds).
	Places, KeyEnds bool
}

// BlockSize returns the tokens of a cache block.
func (o Options) BlockSize() int { return blockSize }

// BlockBytes returns the memory of one cache block over all layers.
func (o Options) BlockBytes() int {
	return len(o.halves()) * o.Layers * o.halfBytes()
}

// halves names what the cache has in each layer.
func (o Options) halves() []string {
	if o.Latent {
		return []string{"k_cache"}
	}
	return []string{"k_cache", "v_cache"}
}

// halfBytes returns the bytes of one block's keys, or values, in one layer.
func (o Options) halfBytes() int {
	return o.KVHeads * int(C.pa_head_bytes(cacheForms[o.Cache], C.int(o.HeadDim)))
}

// bounds are what steps are checked against.
func (o Options) bounds() bounds {
	return bounds{vocab: o.Vocab, maxLen: o.MaxLen, originalLen: o.OriginalLen, blocks: o.Blocks, blockSize: blockSize,
		width: o.Width, places: o.Places, keyEnds: o.KeyEnds}
}

// check returns an error for the first option that is out of range.
func (o Options) check() error {
	for _, v := range []struct {
		name  string
		value int
		max   int
	}{
		{"Layers", o.Layers, 1 << 12},
		{"KVHeads", o.KVHeads, 1 << 12},
		{"HeadDim", o.HeadDim, 576},
		{"Vocab", o.Vocab, 1 << 24},
		{"MaxLen", o.MaxLen, 1 << 28},
		{"Blocks", o.Blocks, math.MaxInt32 / blockSize},
	} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("option %s is %d, must be between 1 and %d", v.name, v.value, v.max)
		}
	}
	if _, known := cacheForms[o.Cache]; !known {
		return fmt.Errorf("option Cache is %q, must be one of float32, float16, bfloat16 and int8", o.Cache)
	}
	if o.HeadDim%8 != 0 {
		return fmt.Errorf("option HeadDim is %d, must be a multiple of 8", o.HeadDim)
	}
	if o.OriginalLen < 0 || o.OriginalLen >= o.MaxLen {
		return fmt.Errorf("option OriginalLen is %d, must be between 0 and MaxLen, %d", o.OriginalLen, o.MaxLen)
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
	weights weights
	// bound is that of the step; nil when the model is closed. There are runners for ordinary steps and, if steps may
	// spin, for small ones.
	bound   *bound
	runners []runner
	quiet   quiet
	cache   pages
	inputs  map[string]*buffer // by name
	logits  buffer
	// adapters are those of AddAdapter.
	adapters adapters
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

// Inputs of a graph that takes embeddings: the indices of some tokens, and their vectors.
const (
	embeddedInput   = "embedded"
	embeddingsInput = "embeddings"
)

// cacheFormInput is the input that says what the cache's bytes are.
const cacheFormInput = "cache_form"

// placesInput is the input of a graph that takes three positions for each token.
const placesInput = "places"

// keyEndsInput is the input of a graph that takes the position behind the last key that each token sees.
const keyEndsInput = "key_ends"

// rotaryRowsInput is the input of a graph whose rotary frequencies depend on the length of a sequence.
const rotaryRowsInput = "rotary_rows"

// adaptersInput is the input with the address of each token's adapter.
const adaptersInput = "adapters"

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
	p := &Paged{o: o, inputs: map[string]*buffer{}}
	var err error
	p.weights, err = mapWeights(o.WeightsPath, o.Weights)
	spin := o.Spin == SpinOn || o.Spin == SpinAuto && spinByDefault(o.Threads)
	if err == nil {
		err = p.addRunner(spin)
	}
	if err == nil && !spin && o.Spin == SpinAuto && spinsWhenQuiet(o.Threads) && len(o.Weights) > 0 {
		err = p.addRunner(true)
	}
	if err == nil {
		err = p.bindCache()
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	return p, nil
}

// runner is a session and what it runs on.
type runner struct {
	session *session
	bound   *bound
}

// addRunner opens a session of the model. All share the weights that are mapped.
func (p *Paged) addRunner(spin bool) error {
	s, err := openSession(p.o.ModelPath, sessionOptions{threads: p.o.Threads, spin: spin, weights: p.weights})
	if err != nil {
		return err
	}
	b, err := s.bindings()
	if err != nil {
		s.close()
		return err
	}
	p.runners = append(p.runners, runner{s, b})
	p.bound = p.runners[0].bound
	return nil
}

// choose has the next step, of so many tokens, run on the runner that spins if it may, and else on the other.
func (p *Paged) choose(tokens int, now time.Time) (spins bool) {
	spins = len(p.runners) > 1 && tokens <= smallStep && p.quiet.may(now)
	if p.bound = p.runners[0].bound; spins {
		p.bound = p.runners[1].bound
	}
	return spins
}

// bindCache checks the model's inputs and outputs, reserves the cache and binds it.
func (p *Paged) bindCache() error {
	if err := checkTensors(p.runners[0].session, p.o); err != nil {
		return err
	}
	var err error
	if p.cache, err = mapPages(p.o.Blocks * p.o.BlockBytes()); err != nil {
		return fmt.Errorf("reserving the cache: %w", err)
	}
	p.cache.enlarge(p.o.Blocks * p.o.halfBytes())
	for layer := range p.o.Layers {
		for half, prefix := range p.o.halves() {
			name := fmt.Sprintf("%s.%d", prefix, layer)
			at := unsafe.Pointer(&p.layerCache(layer, half)[0])
			for _, r := range p.runners {
				if err := r.bound.bind(false, name, uint8s, at, int64(p.o.Blocks), int64(p.o.halfBytes())); err != nil {
					return err
				}
			}
		}
	}
	form := &buffer{}
	p.inputs[cacheFormInput] = form
	if err := fill[int32](form, []int32{int32(cacheForms[p.o.Cache])}); err != nil {
		return err
	}
	for _, r := range p.runners {
		if err := r.bound.bind(false, cacheFormInput, int32s, form.at, 1); err != nil {
			return err
		}
	}
	for name := range stepInputs {
		p.inputs[name] = &buffer{}
	}
	for _, name := range []string{adaptersInput, embeddedInput, embeddingsInput, placesInput, keyEndsInput,
		rotaryRowsInput} {
		p.inputs[name] = &buffer{}
	}
	return nil
}

// layerCache returns the keys (half 0) or values (half 1) of a layer, all blocks.
func (p *Paged) layerCache(layer, half int) []byte {
	n := p.o.Blocks * p.o.halfBytes()
	halves := len(p.o.halves())
	all := unsafe.Slice((*byte)(p.cache.at), halves*p.o.Layers*n)
	return all[(halves*layer+half)*n:][:n]
}

// Vocab returns the number of logits of a row.
func (p *Paged) Vocab() int { return p.o.Vocab }

// BlockSize returns the tokens of a cache block.
func (p *Paged) BlockSize() int { return blockSize }

// Width returns the width of the vectors that the graph takes in place of tokens; 0: it takes none.
func (p *Paged) Width() int { return p.o.Width }

// Blocks returns the number of cache blocks.
func (p *Paged) Blocks() int { return p.o.Blocks }

// CacheBytes returns the memory of the cache; the system backs it on first use.
func (p *Paged) CacheBytes() int64 { return int64(p.o.Blocks) * int64(p.o.BlockBytes()) }

// MaxLen returns the maximum length of a sequence.
func (p *Paged) MaxLen() int { return p.o.MaxLen }

// OriginalLen returns the length beyond which sequences have other rotary frequencies; 0: there is none.
func (p *Paged) OriginalLen() int { return p.o.OriginalLen }

// KeyEnds reports whether the model takes the ends of what tokens see (llm.Step.KeyEnds).
func (p *Paged) KeyEnds() bool { return p.o.KeyEnds }

// ThreadCount returns the number of threads that a step runs on.
func (p *Paged) ThreadCount() int { return p.o.Threads }

// Forward runs a step and returns the logits of its LogitRows, [len(LogitRows)*Vocab], in the
// order of the rows. The slice is C memory: it may be overwritten, and is valid until the next
// Forward or Close. An invalid step and a failing model give errors that wrap llm.ErrBackend;
// the cache is then undefined at the step's slots and intact elsewhere.
func (p *Paged) Forward(s *llm.Step) ([]float32, error) {
	if p.bound == nil {
		return nil, fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	if err := checkStep(s, p.o.bounds()); err != nil {
		return nil, fmt.Errorf("%w: BUG: step: %w", llm.ErrBackend, err)
	}
	p.adapters.mu.RLock()
	defer p.adapters.mu.RUnlock()
	logits, err := p.forward(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return logits, nil
}

// forward runs a checked step; the caller holds adapters.mu.
func (p *Paged) forward(s *llm.Step) ([]float32, error) {
	tokens, batch := int64(len(s.Tokens)), int64(s.Rows())
	spins := p.choose(len(s.Tokens), time.Now())
	err := errors.Join(
		bindStep[int64](p, "input_ids", s.Tokens, tokens),
		bindStep[int32](p, "cu_seqlens", s.CuSeqlens, batch+1),
		bindStep[int32](p, "past_lens", s.PastLens, batch),
		bindStep[int32](p, "block_table", s.BlockTable, batch, int64(s.MaxBlocks)),
		bindStep[int32](p, "slot_mapping", s.SlotMapping, tokens),
		bindStep[int64](p, "logit_rows", s.LogitRows, int64(len(s.LogitRows))),
		p.bindLogits(len(s.LogitRows)),
	)
	if p.o.Adapters > 0 {
		err = errors.Join(err, p.bindAdapters(s))
	}
	if p.o.Width > 0 {
		err = errors.Join(err, p.bindEmbeddings(s.Embeddings))
	}
	if p.o.Places {
		err = errors.Join(err, p.bindPlaces(s))
	}
	if p.o.KeyEnds {
		err = errors.Join(err, p.bindKeyEnds(s))
	}
	if p.o.OriginalLen > 0 {
		err = errors.Join(err, p.bindRotaryRows(s))
	}
	if err != nil {
		return nil, err
	}
	if err := p.bound.run(); err != nil {
		return nil, err
	}
	if spins {
		took, computed := p.bound.took()
		p.quiet.spun(took, computed, time.Now())
	}
	return unsafe.Slice((*float32)(p.logits.at), len(s.LogitRows)*p.o.Vocab), nil
}

// bindStep copies one input of the step into C memory and binds it.
func bindStep[To, From int32 | int64 | uint32](p *Paged, name string, values []From, shape ...int64) error {
	buf := p.inputs[name]
	if err := fill[To](buf, values); err != nil {
		return err
	}
	return p.bound.bind(false, name, stepInputs[name], buf.at, shape...)
}

// bindEmbeddings copies the step's embeddings, which may be none, into C memory and binds them.
func (p *Paged) bindEmbeddings(list []llm.Embedding) error {
	n := 0
	for _, e := range list {
		n += e.N
	}
	at, vectors := p.inputs[embeddedInput], p.inputs[embeddingsInput]
	if err := errors.Join(at.reserve(n*8), vectors.reserve(n*p.o.Width*4)); err != nil {
		return err
	}
	tokens, rows := unsafe.Slice((*int64)(at.at), n)[:0], unsafe.Slice((*float32)(vectors.at), n*p.o.Width)[:0]
	for _, e := range list {
		for i := range e.N {
			tokens = append(tokens, int64(e.At+i))
		}
		rows = append(rows, e.Vectors...)
	}
	return errors.Join(
		p.bound.bind(false, embeddedInput, int64s, at.at, int64(n), 1),
		p.bound.bind(false, embeddingsInput, float32s, vectors.at, int64(n), int64(p.o.Width)))
}

// bindPlaces copies the step's places into C memory, or what they are without, and binds them.
func (p *Paged) bindPlaces(s *llm.Step) error {
	places := s.Places
	if len(places) == 0 {
		for b, past := range s.PastLens {
			end := int(past) + int(s.CuSeqlens[b+1]-s.CuSeqlens[b])
			places = llm.AppendPlaces(places, nil, int(past), end)
		}
	}
	buf := p.inputs[placesInput]
	if err := fill[int64](buf, places); err != nil {
		return err
	}
	return p.bound.bind(false, placesInput, int64s, buf.at, int64(len(s.Tokens)), 3)
}

// bindKeyEnds copies the ends of what the step's tokens see into C memory, or what they are without, and binds them.
func (p *Paged) bindKeyEnds(s *llm.Step) error {
	ends := s.KeyEnds
	if len(ends) == 0 {
		for b, past := range s.PastLens {
			ends = llm.AppendKeyEnds(ends, nil, int(past), int(past)+int(s.CuSeqlens[b+1]-s.CuSeqlens[b]))
		}
	}
	buf := p.inputs[keyEndsInput]
	if err := fill[int32](buf, ends); err != nil {
		return err
	}
	return p.bound.bind(false, keyEndsInput, int32s, buf.at, int64(len(s.Tokens)))
}

// bindRotaryRows binds the rows of the rotary tables for the step's tokens: those of long sequences are behind the
// others.
func (p *Paged) bindRotaryRows(s *llm.Step) error {
	buf := p.inputs[rotaryRowsInput]
	if err := buf.reserve(len(s.Tokens) * 8); err != nil {
		return err
	}
	rows := unsafe.Slice((*int64)(buf.at), len(s.Tokens))[:0]
	for b, past := range s.PastLens {
		first := int64(past)
		if len(s.Long) > 0 && s.Long[b] {
			first += int64(p.o.OriginalLen)
		}
		for i := range int64(s.CuSeqlens[b+1] - s.CuSeqlens[b]) {
			rows = append(rows, first+i)
		}
	}
	return p.bound.bind(false, rotaryRowsInput, int64s, buf.at, int64(len(s.Tokens)))
}

func (p *Paged) bindLogits(rows int) error {
	if err := p.logits.reserve(rows * p.o.Vocab * 4); err != nil {
		return err
	}
	return p.bound.bind(true, "logits", float32s, p.logits.at, int64(rows), int64(p.o.Vocab))
}

// CopyBlocks copies whole cache blocks of all layers, one pair after the other.
func (p *Paged) CopyBlocks(pairs []llm.BlockCopy) error {
	if p.bound == nil {
		return fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	for i, c := range pairs {
		if uint32(c.Src) >= uint32(p.o.Blocks) || uint32(c.Dst) >= uint32(p.o.Blocks) {
			return fmt.Errorf("%w: BUG: copy %d of block %d to %d, of %d blocks", llm.ErrBackend, i, c.Src, c.Dst,
				p.o.Blocks)
		}
	}
	n := p.o.halfBytes()
	for layer := range p.o.Layers {
		for half := range p.o.halves() {
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
	for _, r := range p.runners {
		r.bound.close()
		r.session.close()
	}
	p.runners, p.bound = nil, nil
	p.weights.close()
	for _, buf := range p.inputs {
		buf.free()
	}
	p.inputs = nil
	p.logits.free()
	p.cache.unmap()
	p.adapters.close()
	trimHeap()
}
