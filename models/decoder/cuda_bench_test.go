package decoder

import (
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// BenchmarkCUDADecode is what the host does for a decoding step of one row, on a Llama of 32 layers with small
// matrices: the device computes nothing and its calls take no time, so it is a lower bound of the host's cost.
func BenchmarkCUDADecode(b *testing.B) {
	library := fake.Need(b)
	fake.Load(b)
	if err := ort.Init(library); err != nil {
		b.Fatal(err)
	}
	c, err := hf.ParseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 1000, "hidden_size": 128,
		"intermediate_size": 256, "num_hidden_layers": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
		"head_dim": 64, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5}`))
	if err != nil {
		b.Fatal(err)
	}
	ck := fixture(b, c, func(map[string]safetensors.Spec) {})
	r, path := buildTo(b, ck, Options{Device: models.CUDA, Weights: models.BF16})
	for _, k := range []struct {
		name   string
		graphs []int
	}{{"eager", nil}, {"graph", []int{1}}} {
		b.Run(k.name, func(b *testing.B) {
			m, err := ort.OpenCUDA(ort.CUDAOptions{ModelPath: path, Layers: c.Layers, KVHeads: c.KVHeads,
				HeadDim: c.HeadDim, Vocab: c.Vocab, MaxLen: c.MaxPositions, BlockSize: r.Layout.BlockSize, MaxBlocks: 8,
				StepTokens: 64, StepRows: 4, Graphs: k.graphs})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s := &llm.Step{Tokens: []llm.Token{1}, CuSeqlens: []int32{0, 1}, PastLens: []int32{3},
				SlotMapping: []int32{3}, BlockTable: []int32{0}, MaxBlocks: 1, LogitRows: []int32{0}}
			for b.Loop() {
				if _, err := m.Forward(s); err != nil {
					b.Fatal(err)
				}
			}
			if n := m.Counts(); (n.Replays > 0) != (k.graphs != nil) {
				b.Errorf("%+v", n)
			}
		})
	}
}
