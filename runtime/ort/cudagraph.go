package ort

import (
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"sync"

	"tgi/runtime/llm"
)

// A CUDA graph is a recorded run: replaying it costs the host a few microseconds, where launching a model's kernels
// one by one costs hundreds. ONNX Runtime records a run under an id and replays it for every later run of that id,
// whatever shapes and addresses are bound then. So each id here stands for one bucket of steps, whose arrays have
// fixed sizes and lie at fixed addresses; steps are padded to them.

// maxGraphs bounds the recorded runs of a model: they are freed with the session only.
const maxGraphs = 32

// splitTokens is the length up to which attention never splits a sequence's keys. The least width of a bucket's block
// table holds so many, so that steps in all wider ones are known to be longer.
const splitTokens = 512

// While a run is recorded no other thread may call CUDA. Steps and copies hold recording for reading, and so wait for
// one; a model that opens or closes, which may take long, holds loading, and no run is recorded meanwhile.
var loading, recording sync.RWMutex

// bucket is a class of steps that decode.
type bucket struct {
	rows, width int
	adapted     bool // a row has an adapter
}

// id is the bucket's graph id: at least 1, and different for each bucket.
func (b bucket) id() int { return b.rows<<7 | int(flag(b.adapted))<<6 | bits.Len(uint(b.width)) }

// lengths returns the longest sequence that fits the bucket, and a length that the longest of every step in it has.
func (b bucket) lengths(blockSize int) (most, least int) {
	most, least = b.width*blockSize, b.width/2*blockSize+1
	if most <= splitTokens || b.width == 1 {
		least = 1
	}
	return most, least
}

// bucketFor returns the bucket of a step; ok is false if it has none: it does not decode alone, or has more rows
// than any.
func bucketFor(s *llm.Step, sizes []int, blockSize int) (b bucket, ok bool) {
	if len(s.Tokens) != s.Rows() || len(s.LogitRows) > s.Rows() {
		return b, false
	}
	i, _ := slices.BinarySearch(sizes, s.Rows())
	if i == len(sizes) {
		return b, false
	}
	longest := 0
	for row := range s.Rows() {
		longest = max(longest, rowEnd(s, row))
	}
	width := max(1, splitTokens/blockSize)
	for width*blockSize < longest {
		width *= 2
	}
	return bucket{sizes[i], width, adapted(s)}, true
}

// cudaGraph is a bucket's arrays and its recorded run.
type cudaGraph struct {
	layout   layout
	bound    *bound
	meta     buffer // attention_metadata, as it was recorded
	recorded bool
	// refused says that recording failed: the bucket's steps run without a graph.
	refused bool
}

// graphSet are a model's graphs.
type graphSet struct {
	sizes []int   // rows of the buckets, ascending; empty for none
	mem   stepMem // of all graphs; it never moves
	graph map[bucket]*cudaGraph
}

// openGraphs reserves the memory that the largest bucket needs.
func (m *CUDA) openGraphs() error {
	m.graphs = graphSet{sizes: m.o.Graphs, graph: map[bucket]*cudaGraph{}}
	m.graphs.mem.device = m.o.Device
	if len(m.o.Graphs) == 0 {
		return nil
	}
	width := max(1, splitTokens/m.o.BlockSize)
	for width*m.o.BlockSize < m.o.MaxLen {
		width *= 2
	}
	rows := m.o.Graphs[len(m.o.Graphs)-1]
	largest := bucket{rows: rows, width: width}.sizes(m.o.extras()).layout()
	return m.graphs.mem.reserve(largest.bytes, rows*m.o.Vocab*float32s.size())
}

// sizes are those of the bucket's arrays.
func (b bucket) sizes(has extras) sizes {
	return sizes{tokens: b.rows, rows: b.rows, width: b.width, logits: b.rows, has: has}
}

// graphFor returns the graph that a step runs in, or nil if it must run without.
func (m *CUDA) graphFor(s *llm.Step) (*cudaGraph, error) {
	b, ok := bucketFor(s, m.graphs.sizes, m.o.BlockSize)
	if !ok {
		return nil, nil
	}
	if g := m.graphs.graph[b]; g != nil {
		if g.refused {
			return nil, nil
		}
		return g, nil
	}
	if len(m.graphs.graph) == maxGraphs {
		return nil, nil
	}
	g := &cudaGraph{layout: b.sizes(m.o.extras()).layout()}
	if err := m.bindGraph(g, b); err != nil {
		g.free()
		return nil, err
	}
	m.graphs.graph[b] = g
	return g, nil
}

// bindGraph binds the arrays of a bucket, for good.
func (m *CUDA) bindGraph(g *cudaGraph, b bucket) (err error) {
	if g.bound, err = m.newBound(b.id()); err != nil {
		return err
	}
	if err := g.meta.reserve(metadataSize * int32s.size()); err != nil {
		return err
	}
	most, least := b.lengths(m.o.BlockSize)
	*(*[metadataSize]int32)(g.meta.at) = [metadataSize]int32{1, int32(most), int32(least)}
	return errors.Join(m.bindCacheTo(g.bound), m.bindStep(g.bound, g.layout, &m.graphs.mem, g.meta.at))
}

// newBound returns a set of tensors whose runs are recorded under a graph id, or not at all where it is -1.
func (m *CUDA) newBound(id int) (*bound, error) {
	b, err := m.session.bindings()
	if err != nil {
		return nil, err
	}
	// The run returns when everything is in the stream; forward waits for the stream once.
	err = b.option("disable_synchronize_execution_providers", "1")
	if err == nil && len(m.o.Graphs) > 0 {
		err = b.option("gpu_graph_id", strconv.Itoa(id))
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// record runs a graph for the first time. ok is false where a model is being opened or closed: then nothing ran. After
// an error nothing is being recorded any more.
func (m *CUDA) record(g *cudaGraph) (ok bool, err error) {
	if !loading.TryLock() {
		return false, nil
	}
	defer loading.Unlock()
	recording.RUnlock() // of forward
	recording.Lock()
	if err = g.bound.run(); err != nil {
		err = errors.Join(err, m.stream.AbortCapture())
	}
	recording.Unlock()
	recording.RLock()
	g.recorded = err == nil
	return true, err
}

func (g *graphSet) free() {
	for _, one := range g.graph {
		one.free()
	}
	g.mem.free()
	*g = graphSet{}
}

func (g *cudaGraph) free() {
	if g.bound != nil {
		g.bound.close()
	}
	g.meta.free()
}

// runGraph runs a step in a graph, which is recorded the first time.
func (m *CUDA) runGraph(g *cudaGraph, s *llm.Step) (*stepMem, error) {
	if err := m.send(&g.layout, &m.graphs.mem, s); err != nil {
		return nil, err
	}
	m.adapters.use(adapted(s)) // as it is recorded
	if g.recorded {
		m.counts.replays.Add(1)
		if err := g.bound.run(); err != nil {
			return nil, err
		}
		return &m.graphs.mem, nil
	}
	ok, err := m.record(g)
	switch {
	case err != nil && m.stream.Synchronize() != nil: // it was not the recording alone
		return nil, err
	case err != nil:
		g.refused = true
		m.counts.refused.Add(1)
		return m.runEager(s)
	case !ok:
		return m.runEager(s)
	}
	m.counts.graphs.Add(1)
	return &m.graphs.mem, nil
}
