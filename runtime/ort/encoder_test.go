package ort

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestEncoderEnds: a run ends soon after its context, with its cause, and the next one computes what it should.
func TestEncoderEnds(t *testing.T) {
	start(t)
	const width, nodes, rows = 512, 400, 400
	q := newQuantised(rand.New(rand.NewPCG(1, 1)), width, width, form{bits: 8, block: 32})
	g := &graph{}
	packed := q.packed()
	g.constant("w", uint8s, packed, []int{len(packed)})
	g.value(false, "x0", float32s, "t", width)
	for i := range nodes {
		g.node("tgi", "MatMulQ", []string{fmt.Sprint("x", i), "w"}, fmt.Sprint("x", i+1), q.attrs())
	}
	out := fmt.Sprint("x", nodes)
	g.value(true, out, float32s, "t", width)
	e, err := OpenEncoder(EncoderOptions{ModelPath: g.write(t), Output: out, Width: width, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in := []Tensor{{Name: "x0", Shape: []int64{rows, width}, Floats: make([]float32, rows*width)}}
	whole := time.Now()
	if _, err := e.Run(t.Context(), in, rows); err != nil {
		t.Fatal(err)
	}
	took := time.Since(whole)
	gone := errors.New("the client went")
	for _, part := range []time.Duration{0, took / 20} {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(part, func() { cancel(gone) })
		begun := time.Now()
		_, err := e.Run(ctx, in, rows)
		if !errors.Is(err, gone) {
			t.Errorf("ended after %s: %v", part, err)
		}
		t.Logf("asked to end after %s, ended after %s of %s", part, time.Since(begun), took)
		timer.Stop()
	}
	if v, err := e.Run(t.Context(), in, rows); err != nil || len(v) != rows*width || v[0] != 0 {
		t.Errorf("%d numbers, %v", len(v), err)
	}
}
