// Package gguftest writes small files in the GGUF format for tests.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Tensor is a tensor of a file.
type Tensor struct {
	Name string
	// Type is its number in the format; 0 is 32-bit floats.
	Type  uint32
	Shape []int // outermost dimension first
	Data  []byte
}

// Floats returns a tensor of 32-bit floats, all of which are v.
func Floats(name string, v float32, shape ...int) Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := Tensor{Name: name, Shape: shape}
	for range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// alignment is that of tensors' data.
const alignment = 32

// File returns a file. Values of keys are bool, int (32 bits), float32, string, []int, []float32 and []string.
func File(keys map[string]any, list []Tensor) []byte {
	var w writer
	w.out = append(w.out, "GGUF"...)
	w.u32(3)
	w.u64(len(list))
	w.u64(len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		w.text(key)
		w.value(keys[key])
	}
	at := 0
	for _, t := range list {
		w.text(t.Name)
		w.u32(uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			w.u64(d)
		}
		w.u32(t.Type)
		w.u64(at)
		at += (len(t.Data) + alignment - 1) / alignment * alignment
	}
	for _, t := range list {
		w.align()
		w.out = append(w.out, t.Data...)
	}
	w.align()
	return w.out
}

type writer struct{ out []byte }

func (w *writer) align() {
	w.out = append(w.out, make([]byte, (alignment-len(w.out)%alignment)%alignment)...)
}
func (w *writer) u32(n uint32) { w.out = binary.LittleEndian.AppendUint32(w.out, n) }
func (w *writer) u64(n int)    { w.out = binary.LittleEndian.AppendUint64(w.out, uint64(n)) }

func (w *writer) text(s string) {
	w.u64(len(s))
	w.out = append(w.out, s...)
}

// value writes a value behind its type.
func (w *writer) value(v any) {
	switch v := v.(type) {
	case bool:
		w.u32(7)
		w.out = append(w.out, map[bool]byte{true: 1}[v])
	case int:
		w.u32(5)
		w.u32(uint32(int32(v)))
	case float32:
		w.u32(6)
		w.u32(math.Float32bits(v))
	case string:
		w.u32(8)
		w.text(v)
	case []int:
		w.list(5, len(v), func(i int) { w.u32(uint32(int32(v[i]))) })
	case []float32:
		w.list(6, len(v), func(i int) { w.u32(math.Float32bits(v[i])) })
	case []string:
		w.list(8, len(v), func(i int) { w.text(v[i]) })
	default:
		panic(fmt.Sprintf("BUG: gguftest: a value of type %T", v))
	}
}

func (w *writer) list(kind uint32, n int, element func(i int)) {
	w.u32(9)
	w.u32(kind)
	w.u64(n)
	for i := range n {
		element(i)
	}
}

// Llama returns keys and tensors of a Llama with one layer, 8 tokens and a tokenizer of bytes, which a test may change.
func Llama() (map[string]any, []Tensor) {
	keys := map[string]any{
		"general.architecture": "llama", "llama.embedding_length": 32, "llama.block_count": 1,
		"llama.context_length":      64,
		"llama.feed_forward_length": 32, "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5), "tokenizer.ggml.model": "gpt2",
		"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": []string{"<s>", "</s>", "a", "b", "c", "ab", "Ġ", "Ċ"},
		"tokenizer.ggml.token_type": []int{3, 3, 1, 1, 1, 1, 1, 1}, "tokenizer.ggml.merges": []string{"a b"},
		"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1,
		"tokenizer.chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
	}
	list := []Tensor{Floats("token_embd.weight", 0.5, 8, 32), Floats("output_norm.weight", 1, 32)}
	for name, shape := range map[string][]int{"attn_norm": {32}, "ffn_norm": {32}, "attn_q": {32, 32}, "attn_k": {16,
		32},
		"attn_v": {16, 32}, "attn_output": {32, 32}, "ffn_gate": {32, 32}, "ffn_up": {32, 32}, "ffn_down": {32, 32}} {
		list = append(list, Floats("blk.0."+name+".weight", 0.25, shape...))
	}
	return keys, list
}
