package decoder

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"tgi/models"
	"tgi/models/gguf/gguftest"
	"tgi/models/hf"
	"tgi/runtime/llm"
)

// ggufType is a type of tensors as a test writes it: its number, the elements and bytes of a block, and where 16-bit
// floats of about small are, and other floats, of about large.
type ggufType struct {
	number          uint32
	elements, bytes int
	small, large    []int
}

var ggufTypes = map[string]ggufType{
	"F32":    {0, 1, 4, nil, nil},
	"Q4_0":   {2, 32, 18, []int{0}, nil},
	"Q4_1":   {3, 32, 20, []int{0}, []int{2}},
	"Q5_0":   {6, 32, 22, []int{0}, nil},
	"Q5_1":   {7, 32, 24, []int{0}, []int{2}},
	"Q8_0":   {8, 32, 34, []int{0}, nil},
	"Q4_K":   {12, 256, 144, []int{0, 2}, nil},
	"Q5_K":   {13, 256, 176, []int{0, 2}, nil},
	"Q6_K":   {14, 256, 210, []int{208}, nil},
	"IQ4_NL": {20, 32, 18, []int{0}, nil},
	"IQ4_XS": {23, 256, 136, []int{0}, nil},
	"MXFP4":  {39, 32, 17, nil, nil},
}

// blocks returns random blocks of n elements, whose values are of about the size that a matrix of width k wants.
func (g ggufType) blocks(r *rand.Rand, n int, name string) []byte {
	var out []byte
	for range n / g.elements {
		b := make([]byte, g.bytes)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		for _, at := range g.small {
			exponent := map[string]uint16{"Q8_0": 4, "IQ4_NL": 4, "Q4_K": 2, "Q5_K": 1, "Q6_K": 0, "IQ4_XS": 0}[name]
			if exponent == 0 && g.elements == 32 {
				exponent = 6
			}
			binary.LittleEndian.PutUint16(b[at:], exponent<<10|uint16(r.Uint32N(1024)))
		}
		for _, at := range g.large {
			binary.LittleEndian.PutUint16(b[at:], 1<<15|9<<10|uint16(r.Uint32N(1024)))
		}
		switch name {
		case "MXFP4":
			b[0] = byte(119 + r.UintN(3))
		case "F32":
			binary.LittleEndian.PutUint32(b, 0x3f000000|r.Uint32N(1<<23))
		}
		out = append(out, b...)
	}
	return out
}

// writeGGUF returns a mixture of experts of two layers whose matrices have the given types in turn.
func writeGGUF(types ...string) []byte {
	const hidden, inner, vocab, heads, kvHeads, dim = 256, 512, 96, 4, 2, 64
	r := rand.New(rand.NewPCG(3, uint64(len(types[0]))))
	keys := map[string]any{"general.architecture": "llama", "llama.embedding_length": hidden, "llama.block_count": 2,
		"llama.context_length": 160, "llama.attention.head_count": heads, "llama.attention.head_count_kv": kvHeads,
		"llama.feed_forward_length": inner, "llama.expert_count": 4, "llama.expert_used_count": 2,
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5)}
	var list []gguftest.Tensor
	next := 0
	add := func(name string, matrix bool, shape ...int) {
		kind := "F32"
		if matrix {
			kind = types[next%len(types)]
			next++
		}
		n := 1
		for _, d := range shape {
			n *= d
		}
		g := ggufTypes[kind]
		list = append(list, gguftest.Tensor{Name: name, Type: g.number, Shape: shape, Data: g.blocks(r, n, kind)})
	}
	add("token_embd.weight", true, vocab, hidden)
	add("output_norm.weight", false, hidden)
	for i := range 2 {
		p := fmt.Sprintf("blk.%d.", i)
		add(p+"attn_norm.weight", false, hidden)
		add(p+"attn_q.weight", true, heads*dim, hidden)
		add(p+"attn_k.weight", true, kvHeads*dim, hidden)
		add(p+"attn_v.weight", true, kvHeads*dim, hidden)
		add(p+"attn_output.weight", true, hidden, heads*dim)
		add(p+"ffn_norm.weight", false, hidden)
		add(p+"ffn_gate_inp.weight", false, 4, hidden)
		add(p+"ffn_gate_exps.weight", true, 4, inner, hidden)
		add(p+"ffn_up_exps.weight", true, 4, inner, hidden)
		add(p+"ffn_down_exps.weight", true, 4, hidden, inner)
	}
	return gguftest.File(keys, list)
}

func openStored(t testing.TB, types ...string) *hf.Checkpoint {
	t.Helper()
	ck, err := hf.OpenFS(fstest.MapFS{"m.gguf": {Data: writeGGUF(types...)}}, "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

// storedTypes are the mixes of types that tests have: each alone, as llama.cpp mixes them, and pairs that have to meet
// in one form where they are a gate and an up.
var storedTypes = [][]string{{"Q4_0"}, {"Q4_1"}, {"Q5_0"}, {"Q5_1"}, {"Q8_0"}, {"Q4_K"}, {"Q5_K"}, {"IQ4_NL"},
	{"IQ4_XS"}, {"MXFP4"}, {"Q6_K"}, {"Q4_K", "Q4_K", "Q6_K"}, {"Q5_K", "Q8_0", "Q4_0", "F32"},
	{"Q4_0", "Q4_1"}, {"IQ4_NL", "Q8_0"}, {"IQ4_NL", "MXFP4"}, {"IQ4_NL", "Q4_1"}, {"Q4_K", "Q5_K"}}

// TestStoredWeights: a model computes what the floats that its blocks stand for give, but for the rounding of
// activations: blocks of integers lose nothing.
func TestStoredWeights(t *testing.T) {
	for _, types := range storedTypes {
		t.Run(fmt.Sprint(types), func(t *testing.T) {
			ck := openStored(t, types...)
			if !slices.Contains(ck.Coded, types[0]) && types[0] != "MXFP4" {
				t.Errorf("the types of blocks are %v", ck.Coded)
			}
			prompt := []llm.Token{5, 80, 3, 41, 41, 7, 90, 12}
			logits := func(w models.Weights) ([][]float32, Result) {
				r, path := buildTo(t, ck, Options{Weights: w})
				return runModel(t, r, path, 16).prefill(&sequence{}, prompt, 0), r
			}
			want, _ := logits(models.FP32)
			got, r := logits(models.Stored)
			limit, apart := 0.0, 0.03          // only activations are rounded
			if slices.Contains(types, "F32") { // which 8 bits come near
				limit, apart = 0.01, 0.1
			}
			if len(types) > 1 && slices.Contains(types, "Q6_K") { // gates and ups of two types have 8 bits
				limit = 0.002
			}
			if e := r.Error.Relative(); e > limit || r.Error.Count() == 0 {
				t.Errorf("the weights err by %g", e)
			}
			var ratios []float64 // a single position may go to another expert
			for i := range want {
				var noise, signal float64
				for j := range want[i] {
					d := float64(got[i][j] - want[i][j])
					noise, signal = noise+d*d, signal+float64(want[i][j])*float64(want[i][j])
				}
				ratios = append(ratios, noise/signal)
			}
			slices.Sort(ratios)
			if m := ratios[len(ratios)/2]; !(m < apart*apart) {
				t.Errorf("the squares of logits' errors are %g of the logits'", m)
			}
		})
	}
}
