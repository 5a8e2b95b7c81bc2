package ort

import (
	"context"
	"fmt"

	"tgi/runtime/embed"
)

// EmbedderOptions describe the graphs of a model that turns texts into vectors.
type EmbedderOptions struct {
	// ModelPath is the path of the graph from tokens to their vectors, StagesPath that of the one behind the pooling;
	// "" is none.
	ModelPath, StagesPath string
	// Shape is the model's.
	embed.Shape
	// Places and Types say that the graph takes the tokens' places, and their kinds.
	Places, Types bool
	// Threads is how many threads a run has; 0 is Threads().
	Threads int
}

// Embedder runs such a model on the CPU. It implements embed.Model.
type Embedder struct {
	o             EmbedderOptions
	model, stages *Encoder
}

// OpenEmbedder loads the graphs. Init must have succeeded. The caller must Close it.
func OpenEmbedder(o EmbedderOptions) (*Embedder, error) {
	e := &Embedder{o: o}
	var err error
	e.model, err = OpenEncoder(EncoderOptions{ModelPath: o.ModelPath, Output: "hidden", Width: o.Width,
		Threads: o.Threads})
	if err == nil && o.StagesPath != "" {
		e.stages, err = OpenEncoder(EncoderOptions{ModelPath: o.StagesPath, Output: "out", Width: o.Out,
			Threads: o.Threads})
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Shape implements embed.Model.
func (e *Embedder) Shape() embed.Shape { return e.o.Shape }

// Forward implements embed.Model.
func (e *Embedder) Forward(ctx context.Context, s *embed.Step) ([]float32, error) {
	vector := func(name string, list []int64) Tensor {
		return Tensor{Name: name, Shape: []int64{int64(len(list))}, Ints: list}
	}
	in := []Tensor{vector("input_ids", s.IDs), vector("cu_seqlens", s.Starts), vector("logit_rows", s.Rows)}
	if e.o.Places {
		in = append(in, vector("places", s.Places))
	}
	if e.o.Types {
		in = append(in, vector("token_types", s.Types))
	}
	return e.model.Run(ctx, in, len(s.Rows))
}

// Stages implements embed.Model.
func (e *Embedder) Stages(ctx context.Context, pooled []float32, n int) ([]float32, error) {
	if e.stages == nil {
		return pooled, nil
	}
	if len(pooled)%n != 0 {
		return nil, fmt.Errorf("%w: %d numbers for %d texts", ErrModel, len(pooled), n)
	}
	return e.stages.Run(ctx, []Tensor{{Name: "pooled", Shape: []int64{int64(n), int64(len(pooled) / n)},
		Floats: pooled}}, n)
}

// Close frees the graphs. It may be called twice.
func (e *Embedder) Close() {
	for _, one := range []*Encoder{e.model, e.stages} {
		if one != nil {
			one.Close()
		}
	}
}
