package ort

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"tgi/runtime/cuda"
	"tgi/runtime/llm"
)

// CUDAOptions describe a model that was built for CUDA, and the cache to run it with.
type CUDAOptions struct {
	// ModelPath is the path of the .onnx file; its weights are beside it.
	ModelPath string
	// Layers, KVHeads and HeadDim are the shape of the cache.
	Layers, KVHeads, HeadDim int
	// Latent says that values are parts of the keys: the cache holds keys alone.
	Latent bool
	// Places says that the graph takes three positions for each token (llm.Step.Places).
	Places bool
	// Vocab is the number of logits of a row.
	Vocab int
	// MaxLen is the maximum length of a sequence: the number of positions of the model.
	MaxLen int
	// BlockSize is the number of tokens of a cache block, as the model was built.
	BlockSize int
	// Device is the CUDA device's index.
	Device int
	// MaxBlocks is the most cache blocks that are of use.
	MaxBlocks int
	// CacheBytes bounds the memory of the cache, whatever is free; 0 does not. It never gets more than CacheShare of
	// what is free once the model has run its largest step.
	CacheBytes int64
	// StepTokens and StepRows are the most prompt tokens and the most rows of a step. Open runs such a step, so that
	// the memory that it takes is known. Larger ones run too, if the device has memory left.
	StepTokens, StepRows int
	// Graphs are the numbers of rows that decoding steps are padded to, ascending, to run as CUDA graphs, which are
	// recorded when they are first needed; none has every step launched kernel by kernel.
	Graphs []int
	// Adapters counts the matrices that low-rank adapters may add to, 0 for a model without adapters; AdapterBytes is
	// what they may take of the device's memory together, which the cache leaves free.
	Adapters     int
	AdapterBytes int64
	// MixedGEMM multiplies 4-bit and 8-bit matrices by kernels of their own, which are profiled while the model opens,
	// where the library has them for the model's shapes.
	MixedGEMM bool
}

// CacheShare is the part of the free memory of a device that a cache takes at most: what steps, graphs and others
// take later has the rest.
const CacheShare = 0.9

// bounds are what a step is checked against.
func (o CUDAOptions) bounds(blocks int) bounds {
	return bounds{vocab: o.Vocab, maxLen: o.MaxLen, blocks: blocks, blockSize: o.BlockSize, places: o.Places}
}

// extras are the arrays that the model reads beside those of all.
func (o CUDAOptions) extras() extras { return extras{adapters: o.Adapters > 0, places: o.Places} }

// halves are what the cache holds of each layer.
func (o CUDAOptions) halves() []string {
	if o.Latent {
		return []string{"k_cache"}
	}
	return []string{"k_cache", "v_cache"}
}

// check returns an error for the first option that is out of range.
func (o CUDAOptions) check() error {
	for _, v := range []struct {
		name  string
		value int
		max   int
	}{
		{"Layers", o.Layers, 1 << 12},
		{"KVHeads", o.KVHeads, 1 << 12},
		{"HeadDim", o.HeadDim, 1 << 10},
		{"Vocab", o.Vocab, 1 << 24},
		{"MaxLen", o.MaxLen, 1 << 28},
		{"BlockSize", o.BlockSize, 1 << 12},
		{"MaxBlocks", o.MaxBlocks, math.MaxInt32/max(1, o.BlockSize) - 1},
		{"StepTokens", o.StepTokens, 1 << 24},
		{"StepRows", o.StepRows, 1 << 16},
	} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("option %s is %d, must be between 1 and %d", v.name, v.value, v.max)
		}
	}
	if !slices.IsSorted(o.Graphs) || len(o.Graphs) > 0 && o.Graphs[0] < 1 {
		return fmt.Errorf("option Graphs is %v, must be positive and ascending", o.Graphs)
	}
	if o.Device < 0 || o.CacheBytes < 0 || o.AdapterBytes < 0 || o.Adapters < 0 {
		return fmt.Errorf("option Device is %d, CacheBytes %d, AdapterBytes %d and Adapters %d, must be at least 0", o.Device,
			o.CacheBytes, o.AdapterBytes, o.Adapters)
	}
	return nil
}

// CUDA runs a decoder graph over a paged KV cache on a CUDA device. It implements the engine's
// Model. Only one goroutine at a time may call its methods; Counts may be called from any.
type CUDA struct {
	o       CUDAOptions
	thread  *deviceThread // makes all calls of CUDA and of the session
	stream  *cuda.Stream
	session *session
	bound   *bound
	kind    element      // of the cache
	cache   []*deviceMem // keys and values of each layer
	blocks  int          // of the cache, without the spare one
	step    stepMem
	graphs  graphSet
	reducer reducer
	// adapters are the low-rank adapters of its rows.
	adapters deviceAdapters
	// attention computes steps that decode.
	attention deviceAttention
	dead      error // why the device cannot be used any more
	// notMixed is why the model was opened again without MixedGEMM.
	notMixed error
	closed   bool

	counts struct{ steps, replays, graphs, refused, copiedIn, copiedOut, whole, reduced atomic.Int64 }
}

// CUDACounts are what a model counted since it was opened.
type CUDACounts struct {
	// Steps are those that were computed, Replays those among them that were CUDA graphs, and Graphs how many of these
	// were recorded. Refused graphs could not be recorded: their steps run without.
	Steps, Replays, Graphs, Refused int64
	// CopiedIn and CopiedOut are the bytes that crossed the bus for steps. WholeRows of logits were copied out, and of
	// ReducedRows only what a pick needs.
	CopiedIn, CopiedOut, WholeRows, ReducedRows int64
}

// Counts returns what was counted. It may be called from any goroutine.
func (m *CUDA) Counts() CUDACounts {
	c := &m.counts
	return CUDACounts{Steps: c.steps.Load(), Replays: c.replays.Load(), Graphs: c.graphs.Load(),
		Refused: c.refused.Load(), CopiedIn: c.copiedIn.Load(), CopiedOut: c.copiedOut.Load(),
		WholeRows: c.whole.Load(), ReducedRows: c.reduced.Load()}
}

// DeviceMemory returns the bytes of a CUDA device that are free and that it has, between the steps that are recorded.
// It may be called from any goroutine.
func DeviceMemory(device int) (free, total int64, err error) {
	recording.RLock()
	defer recording.RUnlock()
	return cuda.MemInfo(device)
}

// opening is held while a model opens: they do so one after the other.
var opening sync.Mutex

// OpenCUDA loads a model onto a CUDA device and reserves its cache. Init must have succeeded, with a library that has
// the CUDA provider, and cuda.Load before it. Errors wrap ErrLibrary or ErrModel. The caller must Close the model.
func OpenCUDA(o CUDAOptions) (*CUDA, error) {
	if Version() == "" {
		return nil, fmt.Errorf("%w: BUG: OpenCUDA before Init", ErrLibrary)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	opening.Lock()
	defer opening.Unlock()
	m, err := openCUDA(o)
	if err != nil && o.MixedGEMM {
		// The library has such kernels for some shapes only, and says so when one runs.
		o.MixedGEMM = false
		if plain, second := openCUDA(o); second == nil {
			plain.notMixed = err
			return plain, nil
		}
	}
	return m, err
}

// NotMixed returns why the option MixedGEMM has no effect; nil if it has, or was not asked for.
func (m *CUDA) NotMixed() error { return m.notMixed }

func openCUDA(o CUDAOptions) (*CUDA, error) {
	m := &CUDA{o: o, thread: newDeviceThread()}
	var err error
	loading.RLock()
	cuda.SaveSignals()
	m.thread.do(func() { err = m.open() })
	cuda.RestoreSignals() // which the driver changes when it first runs
	loading.RUnlock()
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%w %s on CUDA device %d: %w", ErrModel, o.ModelPath, o.Device, fullDevice(err))
	}
	return m, nil
}

// fullDevice replaces the text of an error that says that a device's memory is full by what helps.
func fullDevice(err error) error {
	text := err.Error()
	if !strings.Contains(text, "out of memory") && !strings.Contains(text, "Failed to allocate memory") {
		return err
	}
	return fullError{err}
}

// fullError is an error of a device that has no memory left. Its text is one sentence, where those of ONNX Runtime name
// its source files.
type fullError struct{ error }

// Error says what helps.
func (fullError) Error() string {
	return "out of memory: the device's memory is full: use a smaller form of the weights, fewer tokens in a step " +
		"(limits.max_batch_prefill_tokens), or another device"
}

// Unwrap returns the device's error.
func (e fullError) Unwrap() error { return e.error }

// open loads the model, has it run its largest steps with a cache of one block, and gives the cache what is left.
func (m *CUDA) open() error {
	var err error
	if m.stream, err = cuda.NewStream(m.o.Device); err != nil {
		return err
	}
	m.step.device = m.o.Device
	m.session, err = openSession(m.o.ModelPath, sessionOptions{threads: 1, record: true, cuda: &cudaOptions{
		device: m.o.Device, stream: m.stream.Pointer(), graphs: len(m.o.Graphs) > 0, mixedGEMM: m.o.MixedGEMM,
	}})
	if err != nil {
		return err
	}
	if m.kind, err = checkCUDATensors(m.session, m.o); err != nil {
		return err
	}
	if m.bound, err = m.newBound(-1); err != nil {
		return err
	}
	err = errors.Join(m.openAdapters(), m.openAttention(), m.newCache(1), m.openGraphs(), m.openReducer())
	if err != nil {
		return err
	}
	if err := m.warmUp(); err != nil {
		return fmt.Errorf("a step of %d tokens: %w", m.o.StepTokens, err)
	}
	blocks, err := m.planCache()
	if err != nil {
		return err
	}
	return m.newCache(blocks)
}

// warmUp runs the largest steps: one of prompts, one of decoding.
func (m *CUDA) warmUp() error {
	for _, s := range largestSteps(m.o) {
		if err := checkStep(s, m.o.bounds(m.blocks)); err != nil {
			return fmt.Errorf("BUG: step: %w", err)
		}
		mem, err := m.runEager(s)
		if err == nil {
			_, err = m.fetch(mem, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// largestSteps are the largest step of prompts beside decoding rows, the largest step that only decodes, and a step of
// one row, whose keys attention splits into more parts. They write nothing, and all their blocks are the first.
func largestSteps(o CUDAOptions) []*llm.Step {
	prompt := min(o.StepTokens, o.MaxLen)
	steps := make([]*llm.Step, 3)
	for i := range steps {
		steps[i] = &llm.Step{CuSeqlens: []int32{0}}
	}
	for left := o.StepTokens; left > 0; left -= prompt {
		addRow(steps[0], o, 0, min(left, prompt))
	}
	for range o.StepRows {
		addRow(steps[0], o, o.MaxLen-1, 1)
		addRow(steps[1], o, o.MaxLen-1, 1)
	}
	addRow(steps[2], o, o.MaxLen-1, 1)
	return steps
}

// addRow adds a row whose blocks are all the first one.
func addRow(s *llm.Step, o CUDAOptions, past, tokens int) {
	s.Tokens = append(s.Tokens, make([]llm.Token, tokens)...)
	for range tokens {
		s.SlotMapping = append(s.SlotMapping, -1)
	}
	s.PastLens = append(s.PastLens, int32(past))
	s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
	s.LogitRows = append(s.LogitRows, int32(len(s.Tokens)-1))
	s.MaxBlocks = (o.MaxLen + o.BlockSize - 1) / o.BlockSize
	s.BlockTable = append(s.BlockTable, make([]int32, s.MaxBlocks)...)
}

// planCache returns how many blocks the cache gets of the device's free memory.
func (m *CUDA) planCache() (int, error) {
	free, _, err := cuda.MemInfo(m.o.Device)
	if err != nil {
		return 0, err
	}
	free += m.cacheBytes(m.blocks) // which goes first
	room := int64(float64(free-m.o.AdapterBytes) * CacheShare)
	if m.o.CacheBytes > 0 {
		room = min(m.o.CacheBytes, room)
	}
	// One block more is the spare one.
	blocks := min(room/m.blockBytes()-1, int64(m.o.MaxBlocks))
	if blocks < 1 {
		return 0,
			fmt.Errorf("the model leaves %d MiB of the device's memory for the cache, whose smallest size is %d MiB: "+
				"use a smaller form of the weights, or another device", room>>20, 2*m.blockBytes()>>20)
	}
	return int(blocks), nil
}

// blockBytes returns the memory of one cache block over all layers.
func (m *CUDA) blockBytes() int64 { return int64(m.halves()) * int64(m.layerBlock()) }

// halves counts the keys, and values, of all layers.
func (m *CUDA) halves() int { return m.o.Layers * len(m.o.halves()) }

// layerBlock returns the bytes of one block's keys, or values, in one layer.
func (m *CUDA) layerBlock() int { return m.o.BlockSize * m.o.KVHeads * m.o.HeadDim * m.kind.size() }

// cacheBytes returns the memory of a cache of so many blocks and the spare one.
func (m *CUDA) cacheBytes(blocks int) int64 { return int64(blocks+1) * m.blockBytes() }

// newCache replaces the cache by one of so many blocks and binds it.
func (m *CUDA) newCache(blocks int) error {
	m.freeCache()
	m.blocks = blocks
	bytes := (blocks + 1) * m.layerBlock()
	for range m.halves() {
		mem, err := newDeviceMem(m.o.Device, bytes)
		if err != nil {
			return fmt.Errorf("reserving %d MiB for the cache: %w", m.cacheBytes(blocks)>>20, err)
		}
		m.cache = append(m.cache, mem)
		// What no row reads is never written, but a kernel that reads ahead must find numbers.
		if err := m.stream.Set(mem.at, 0, bytes); err != nil {
			return err
		}
	}
	return errors.Join(m.bindCacheTo(m.bound), m.stream.Synchronize())
}

// bindCacheTo binds the cache, which the model writes in place.
func (m *CUDA) bindCacheTo(b *bound) error {
	shape := []int64{int64(m.blocks + 1), int64(m.o.BlockSize), int64(m.o.KVHeads), int64(m.o.HeadDim)}
	halves := m.o.halves()
	for i, mem := range m.cache {
		half, layer := halves[i%len(halves)], i/len(halves)
		err := errors.Join(
			b.bindDevice(false, fmt.Sprintf("%s.%d", half, layer), m.kind, mem.at, shape...),
			b.bindDevice(true, fmt.Sprintf("%s_out.%d", half, layer), m.kind, mem.at, shape...))
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *CUDA) freeCache() {
	for _, mem := range m.cache {
		mem.free()
	}
	m.cache = nil
}

// Vocab returns the number of logits of a row.
func (m *CUDA) Vocab() int { return m.o.Vocab }

// BlockSize returns the tokens of a cache block.
func (m *CUDA) BlockSize() int { return m.o.BlockSize }

// Width returns 0: the graph takes no vectors in place of tokens.
func (m *CUDA) Width() int { return 0 }

// Blocks returns the number of cache blocks.
func (m *CUDA) Blocks() int { return m.blocks }

// MaxLen returns the maximum length of a sequence.
func (m *CUDA) MaxLen() int { return m.o.MaxLen }

// OriginalLen returns 0: rotary frequencies do not depend on the length of a sequence.
func (m *CUDA) OriginalLen() int { return 0 }

// ThreadCount returns the number of CPU threads that a step runs on.
func (m *CUDA) ThreadCount() int { return 1 }

// GraphSizes returns the numbers of rows that steps which decode are padded to, to run as CUDA graphs.
func (m *CUDA) GraphSizes() []int { return slices.Clone(m.o.Graphs) }

// CacheBytes returns the memory of the cache, on the device.
func (m *CUDA) CacheBytes() int64 { return m.cacheBytes(m.blocks) }

// Close frees the model and its cache. It must not run during a Forward of the same model. It
// invalidates the last logits and may be called twice.
func (m *CUDA) Close() {
	if m.closed {
		return
	}
	m.closed = true
	loading.RLock()
	m.thread.do(m.free)
	loading.RUnlock()
	m.thread.end()
	trimHeap()
}

// free gives everything back. Where the device failed, the calls fail, and nothing is left to do about it.
func (m *CUDA) free() {
	if m.stream != nil {
		_ = m.stream.Synchronize()
	}
	m.graphs.free()
	m.reducer.free()
	m.adapters.free()
	m.attention.free()
	if m.bound != nil {
		m.bound.close()
	}
	if m.session != nil {
		m.session.close()
	}
	m.freeCache()
	m.step.free()
	if m.stream != nil {
		_ = m.stream.Close()
	}
}

// Forward runs a step and returns the logits of its LogitRows, [len(LogitRows)*Vocab], in the
// order of the rows. The slice is C memory: it may be overwritten, and is valid until the next
// Forward or Close. An invalid step and a failing model give errors that wrap llm.ErrBackend;
// the cache is then undefined at the step's slots and intact elsewhere. Once the device has
// failed, all calls do.
func (m *CUDA) Forward(s *llm.Step) (logits []float32, err error) {
	defer m.adapters.ended()
	err = m.do(s, func() (err error) {
		logits, err = m.forward(s)
		return err
	})
	return logits, err
}

// Eager is Forward with the step's kernels launched one by one, where Forward may replay a CUDA graph: it says what
// graphs save.
func (m *CUDA) Eager(s *llm.Step) (logits []float32, err error) {
	defer m.adapters.ended()
	err = m.do(s, func() error {
		mem, err := m.runEager(s)
		if err == nil {
			logits, err = m.fetch(mem, s)
		}
		return err
	})
	return logits, err
}

// MixedGEMM reports whether the option of that name has effect: it has none where the library lacks kernels for the
// model's shapes.
func (m *CUDA) MixedGEMM() bool { return m.o.MixedGEMM }

// do checks a step and has f run it on the device's thread.
func (m *CUDA) do(s *llm.Step, f func() error) (err error) {
	if err := m.usable(); err != nil {
		return err
	}
	if err := checkStep(s, m.o.bounds(m.blocks)); err != nil {
		return fmt.Errorf("%w: BUG: step: %w", llm.ErrBackend, err)
	}
	if m.o.Adapters == 0 && adapted(s) {
		return fmt.Errorf("%w: BUG: step: %w", llm.ErrBackend, errNoAdapters)
	}
	recording.RLock()
	defer recording.RUnlock()
	m.thread.do(func() {
		if err = f(); err != nil {
			err = m.failed(err)
		}
	})
	m.counts.steps.Add(1)
	return err
}

// usable returns why the model cannot run steps, or nil.
func (m *CUDA) usable() error {
	if m.closed {
		return fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	}
	return m.dead
}

// failed is the error of a step. If the device still fails afterwards, it does so until the process ends.
func (m *CUDA) failed(err error) error {
	if again := m.stream.Synchronize(); again != nil {
		m.dead = fmt.Errorf("%w: CUDA device %d failed (%w): no model can use it until this process is restarted",
			llm.ErrLost, m.o.Device, err)
		return m.dead
	}
	return fmt.Errorf("%w: %w", llm.ErrBackend, err)
}

// forward runs a step that was checked, on the device's thread: one copy to the device, the model, one copy back, one
// wait.
func (m *CUDA) forward(s *llm.Step) ([]float32, error) {
	mem, err := m.launch(s)
	if err != nil {
		return nil, err
	}
	return m.fetch(mem, s)
}

// launch asks the device for a step and returns the memory of its logits, which are not there yet.
func (m *CUDA) launch(s *llm.Step) (*stepMem, error) {
	g, err := m.graphFor(s)
	switch {
	case err != nil:
		return nil, err
	case g == nil:
		return m.runEager(s)
	}
	return m.runGraph(g, s)
}

// runEager launches the step's kernels one by one.
func (m *CUDA) runEager(s *llm.Step) (*stepMem, error) {
	l := sizesOf(s, m.o.extras()).layout()
	if err := m.step.reserve(l.bytes, l.logits*m.o.Vocab*float32s.size()); err != nil {
		return nil, err
	}
	*(*[metadataSize]int32)(m.step.meta.at) = metadata(s)
	if err := m.bindStep(m.bound, l, &m.step, m.step.meta.at); err != nil {
		return nil, err
	}
	if err := m.send(&l, &m.step, s); err != nil {
		return nil, err
	}
	m.adapters.use(adapted(s))
	if err := m.bound.run(); err != nil {
		return nil, err
	}
	return &m.step, nil
}

// send copies a step to the device.
func (m *CUDA) send(l *layout, mem *stepMem, s *llm.Step) error {
	l.pack(mem.in.host.at, s, m.o.BlockSize, int32(m.blocks))
	if l.has.adapters {
		if err := m.adapters.begin(s, array[int64](mem.in.host.at, l.parts[partAdapters])); err != nil {
			return err
		}
	}
	return m.copyIn(mem.in.device.at, mem.in.host.at, l.bytes)
}

// copyIn asks for a copy to the device, and counts it.
func (m *CUDA) copyIn(device, host unsafe.Pointer, bytes int) error {
	m.counts.copiedIn.Add(int64(bytes))
	return m.stream.CopyIn(device, host, bytes)
}

// copyOut asks for a copy from the device, and counts it.
func (m *CUDA) copyOut(host, device unsafe.Pointer, bytes int) error {
	m.counts.copiedOut.Add(int64(bytes))
	return m.stream.CopyOut(host, device, bytes)
}

// fetch copies a step's logits back and waits for the device.
func (m *CUDA) fetch(mem *stepMem, s *llm.Step) ([]float32, error) {
	n := len(s.LogitRows) * m.o.Vocab
	if n > 0 {
		m.counts.whole.Add(int64(len(s.LogitRows)))
		if err := m.copyOut(mem.logits.host.at, mem.logits.device.at, n*float32s.size()); err != nil {
			return nil, err
		}
	}
	if err := m.stream.Synchronize(); err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(mem.logits.host.at), n), nil
}

// CopyBlocks copies whole cache blocks of all layers, one pair after the other, before the next step.
func (m *CUDA) CopyBlocks(pairs []llm.BlockCopy) (err error) {
	if err := m.usable(); err != nil {
		return err
	}
	for i, c := range pairs {
		if uint32(c.Src) >= uint32(m.blocks) || uint32(c.Dst) >= uint32(m.blocks) {
			return fmt.Errorf("%w: BUG: copy %d of block %d to %d, of %d blocks", llm.ErrBackend, i, c.Src, c.Dst,
				m.blocks)
		}
	}
	recording.RLock()
	defer recording.RUnlock()
	m.thread.do(func() {
		if err = m.copyBlocks(pairs); err != nil {
			err = m.failed(err)
		}
	})
	return err
}

func (m *CUDA) copyBlocks(pairs []llm.BlockCopy) error {
	n := m.layerBlock()
	for _, mem := range m.cache {
		for _, c := range pairs {
			err := m.stream.CopyDevice(unsafe.Add(mem.at, int(c.Dst)*n), unsafe.Add(mem.at, int(c.Src)*n), n)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
