package ort

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// EncoderOptions describe a graph that turns a picture's numbers into vectors for a decoder.
type EncoderOptions struct {
	// ModelPath is the path of the .onnx file; its weights are beside it.
	ModelPath string
	// Output names the output, float32 [n, Width].
	Output string
	Width  int
	// Threads is how many threads a run has; 0 is Threads().
	Threads int
}

// Tensor is an input of an Encoder: Floats or Ints, row-major.
type Tensor struct {
	Name   string
	Shape  []int64
	Floats []float32
	Ints   []int64
}

// Encoder runs a graph on the CPU, one run at a time, whoever calls.
type Encoder struct {
	o       EncoderOptions
	inputs  []tensorInfo
	turn    chan struct{} // holds a token while nothing runs
	mu      sync.Mutex    // protects session against Close
	session *session
	buffers map[string]*buffer
}

// OpenEncoder loads a graph. Init must have succeeded. The caller must Close the encoder.
func OpenEncoder(o EncoderOptions) (*Encoder, error) {
	if o.Threads == 0 {
		o.Threads = Threads()
	}
	s, err := openSession(o.ModelPath, sessionOptions{threads: o.Threads})
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	e := &Encoder{o: o, session: s, turn: make(chan struct{}, 1), buffers: map[string]*buffer{}}
	var outputs []tensorInfo
	if e.inputs, outputs, err = s.bothTensors(); err == nil {
		err = match("output", outputs, []tensorInfo{{o.Output, float32s, []int64{-1, int64(o.Width)}}})
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("%w %s: %w", ErrModel, o.ModelPath, err)
	}
	e.turn <- struct{}{}
	return e, nil
}

// errEncoderClosed says that a run came after Close.
var errEncoderClosed = errors.New("the encoder is closed")

// Run computes n vectors [n*Width] from the inputs, which must be all that the graph has. It waits for other runs. When
// ctx ends it stops between two nodes of the graph and returns the cause.
func (e *Encoder) Run(ctx context.Context, inputs []Tensor, n int) ([]float32, error) {
	select {
	case <-e.turn:
		defer func() { e.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == nil {
		return nil, errEncoderClosed
	}
	out, err := e.run(ctx, inputs, n)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return out, nil
}

// run runs the graph; the caller holds mu.
func (e *Encoder) run(ctx context.Context, inputs []Tensor, n int) ([]float32, error) {
	given := make([]tensorInfo, len(inputs))
	for i, t := range inputs {
		if err := t.check(); err != nil {
			return nil, err
		}
		given[i] = tensorInfo{t.Name, t.kind(), t.Shape}
	}
	if err := match("input", given, e.inputs); err != nil {
		return nil, err
	}
	b, err := e.session.bindings()
	if err != nil {
		return nil, err
	}
	defer b.close()
	for _, t := range inputs {
		if err := e.bind(b, t); err != nil {
			return nil, err
		}
	}
	out := e.buffer(e.o.Output)
	if err := out.reserve(n * e.o.Width * 4); err != nil {
		return nil, err
	}
	if err := b.bind(true, e.o.Output, float32s, out.at, int64(n), int64(e.o.Width)); err != nil {
		return nil, err
	}
	if err := b.runUntil(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(unsafe.Slice((*float32)(out.at), n*e.o.Width)), nil
}

// bind copies an input into C memory and binds it.
func (e *Encoder) bind(b *bound, t Tensor) error {
	buf := e.buffer(t.Name)
	var err error
	if t.Ints != nil {
		err = fill[int64](buf, t.Ints)
	} else if err = buf.reserve(len(t.Floats) * 4); err == nil {
		copy(unsafe.Slice((*float32)(buf.at), len(t.Floats)), t.Floats)
	}
	if err != nil {
		return err
	}
	return b.bind(false, t.Name, t.kind(), buf.at, t.Shape...)
}

func (e *Encoder) buffer(name string) *buffer {
	if e.buffers[name] == nil {
		e.buffers[name] = &buffer{}
	}
	return e.buffers[name]
}

// Close frees the graph, after the run that is under way. It may be called twice.
func (e *Encoder) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == nil {
		return
	}
	e.session.close()
	e.session = nil
	for _, b := range e.buffers {
		b.free()
	}
	e.buffers = nil
	trimHeap()
}

func (t Tensor) kind() element {
	if t.Ints != nil {
		return int64s
	}
	return float32s
}

// check returns an error if the shape does not fit the numbers, or has none.
func (t Tensor) check() error {
	n := int64(1)
	for _, d := range t.Shape {
		if d < 1 || d > 1<<31 || n > 1<<40 {
			return fmt.Errorf("input %q has the shape %v", t.Name, t.Shape)
		}
		n *= d
	}
	if have := int64(len(t.Floats) + len(t.Ints)); n != have || t.Floats != nil && t.Ints != nil {
		return fmt.Errorf("input %q has %d numbers for the shape %v", t.Name, have, t.Shape)
	}
	return nil
}
