// Package models describes a built model: a graph on disk with its weights, and the sizes that a
// backend and a server need. The packages below it build one from a Hugging Face checkpoint.
package models

import "fmt"

// Weights is the format of a built model's matrices.
type Weights string

// The formats. Norms and biases are 32-bit floats in all of them.
const (
	// FP32 keeps 32-bit floats, 4 bytes for each parameter: the reference.
	FP32 Weights = "fp32"
	// Int8 holds 8-bit integers with a 32-bit scale for each block of 128.
	Int8 Weights = "int8"
	// Int4 holds 4-bit integers with a 32-bit scale for each block of 128.
	Int4 Weights = "int4"
)

// ParseWeights parses the name of a format.
func ParseWeights(s string) (Weights, error) {
	switch w := Weights(s); w {
	case FP32, Int8, Int4:
		return w, nil
	}
	return "", fmt.Errorf("weights %q: want fp32, int8 or int4", s)
}

// Arch is the shape of a model.
type Arch struct {
	// Name is the checkpoint folder's own name.
	Name string `json:"name"`
	// Architecture is the class that config.json names, e.g. LlamaForCausalLM.
	Architecture string `json:"architecture"`
	Layers       int    `json:"layers"`
	// Heads counts query heads, KVHeads the heads of keys and values.
	Heads   int `json:"heads"`
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	// Vocab is the width of the logits; a tokenizer may know fewer tokens.
	Vocab int `json:"vocab"`
	// MaxPositions is the maximum length of prompt and output together.
	MaxPositions int `json:"max_positions"`
	// Params counts the checkpoint's parameters, tied ones once.
	Params int64 `json:"params"`
}

// Built is a model in the cache.
type Built struct {
	Arch
	// Weights is the format of the matrices.
	Weights Weights `json:"weights"`
	// WeightBytes is the size of the external data file.
	WeightBytes int64 `json:"weight_bytes"`
	// Dir holds the files; absolute.
	Dir string `json:"-"`
	// ModelFile is the path of model.onnx in Dir.
	ModelFile string `json:"-"`
}
