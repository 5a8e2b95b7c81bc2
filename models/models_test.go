package models

import (
	"slices"
	"strings"
	"testing"
)

func TestLayouts(t *testing.T) {
	cases := []struct {
		device  Device
		weights Weights
		headDim int
		want    Layout
		bytes   int64 // of a token's keys and values in 3 layers of 2 heads
	}{
		{CPU, FP32, 64, Layout{CPU, Float32, Float32, 16}, 2 * 4 * 3 * 2 * 64},
		{CPU, Int4, 256, Layout{CPU, Float32, Float16, 16}, 2 * 2 * 3 * 2 * 256},
		{CUDA, BF16, 64, Layout{CUDA, BFloat16, BFloat16, 256}, 2 * 2 * 3 * 2 * 64},
		{CUDA, FP16, 80, Layout{CUDA, Float16, Float16, 128}, 2 * 2 * 3 * 2 * 80},
		{CUDA, Int8, 128, Layout{CUDA, Float16, Float16, 128}, 2 * 2 * 3 * 2 * 128},
		{CUDA, Int4, 256, Layout{CUDA, Float16, Float16, 64}, 2 * 2 * 3 * 2 * 256},
	}
	for _, c := range cases {
		l := LayoutOf(c.device, c.weights, c.headDim)
		if l != c.want {
			t.Errorf("%s %s %d: %+v, want %+v", c.device, c.weights, c.headDim, l, c.want)
		}
		b := Built{Arch: Arch{Layers: 3, KVHeads: 2, HeadDim: c.headDim}, Layout: l}
		latent := b
		latent.Latent = true
		if n := latent.CacheBytesPerToken(); n != c.bytes/2 {
			t.Errorf("%s %s %d: %d bytes for each token without values, want %d", c.device, c.weights, c.headDim, n,
				c.bytes/2)
		}
		if n := b.CacheBytesPerToken(); n != c.bytes {
			t.Errorf("%s %s %d: %d bytes for each token, want %d", c.device, c.weights, c.headDim, n, c.bytes)
		}
	}
}

func TestDevicesCheckWeights(t *testing.T) {
	all := []Weights{FP32, BF16, FP16, Int8, Int4}
	for _, d := range []Device{CPU, CUDA} {
		for _, w := range all {
			if ok := d.Check(w) == nil; ok != slices.Contains(d.Formats(), w) {
				t.Errorf("%s %s: accepted %v", d, w, ok)
			}
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{CPU.Check(BF16), `weights must be fp32, int8 or int4 on cpu, given "bf16"`},
		{CUDA.Check(FP32), `weights must be bf16, fp16, int8 or int4 on cuda, given "fp32"`},
		{Processor{CUDA, 7, 5}.Check(BF16), `weights must be fp16, int8 or int4 on a CUDA device of compute capability 7.5, ` +
			`given "bf16": that needs at least 8.0`},
		{Processor{CUDA, 9, 0}.Check(FP32), `given "fp32"`},
		{Device("tpu").Check(FP32), `device must be cpu or cuda, given "tpu"`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

func TestAutoWeights(t *testing.T) {
	cpu, turing, ampere := Processor{Device: CPU}, Processor{CUDA, 7, 5}, Processor{CUDA, 8, 0}
	cases := []struct {
		p          Processor
		parameters float64
		dtypes     string
		want       Weights
	}{
		{cpu, 250e6, "BF16", FP32},
		{cpu, 251e6, "BF16", Int8},
		{ampere, 1e6, "BF16", BF16},
		{ampere, 8e9, "BF16", BF16},
		{ampere, 8e9, "F16", FP16},
		{ampere, 8e9, "F32", BF16},
		{ampere, 8e9, "BF16 F32", BF16},
		{ampere, 8e9, "F16 F32", FP16},
		{ampere, 8e9, "BF16 F16", BF16},
		{ampere, 8e9, "", BF16},
		{turing, 8e9, "BF16", FP16},
		{turing, 8e9, "F16", FP16},
		{turing, 8e9, "F32", FP16},
		{Processor{CUDA, 12, 0}, 8e9, "BF16", BF16},
		{cpu, 1e6, "F32 Q4_K", Stored},
		{cpu, 8e9, "BF16 MXFP4", Stored},
		{ampere, 8e9, "F32 Q4_K", Int8},
	}
	for _, c := range cases {
		got := c.p.Auto(c.parameters, strings.Fields(c.dtypes))
		if got != c.want {
			t.Errorf("%+v, %g parameters of %q: %s, want %s", c.p, c.parameters, c.dtypes, got, c.want)
		}
		if err := c.p.Check(got); err != nil {
			t.Error(err)
		}
	}
}
