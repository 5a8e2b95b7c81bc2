// Package models describes a built model: a graph on disk with its weights, and the sizes that a
// backend and a server need. The packages below it build one from a Hugging Face checkpoint.
package models

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
	// Latent says that values are parts of the keys, so that the cache holds keys alone.
	Latent bool `json:"latent,omitempty"`
	// Vocab is the width of the logits; a tokenizer may know fewer tokens.
	Vocab int `json:"vocab"`
	// MaxPositions is the maximum length of prompt and output together.
	MaxPositions int `json:"max_positions"`
	// OriginalPositions, if not 0, is the length beyond which all tokens of a sequence have other keys and values, as
	// rotary frequencies depend on it.
	OriginalPositions int `json:"original_positions,omitempty"`
	// Width is that of the vectors that the graph takes in place of tokens, such as those of images; 0: it takes none.
	Width int `json:"width,omitempty"`
	// TileRows counts the vectors of a tile of a picture; 0 for a model of text only, and if pictures are not cut into
	// tiles.
	TileRows int `json:"tile_rows,omitempty"`
	// Places says that the graph takes the positions of tokens in time, height and width.
	Places bool `json:"places,omitempty"`
	// KeyEnds says that the graph takes the ends of what tokens see: those of an image see each other.
	KeyEnds bool `json:"key_ends,omitempty"`
	// Params counts the checkpoint's parameters, tied ones once.
	Params int64 `json:"params"`
}

// Built is a model in the cache.
type Built struct {
	Arch
	// Layout is how its device holds activations and the KV cache. It follows from the device, the
	// weights and the shape, so it is not stored.
	Layout `json:"-"`
	// Weights is the format of the matrices.
	Weights Weights `json:"weights"`
	// DataSHA256 is the checksum of the external data file, in hex; empty for graphs that others made.
	DataSHA256 string `json:"-"`
	// WeightBytes is the size of the external data file.
	WeightBytes int64 `json:"weight_bytes"`
	// Dir holds the files; absolute.
	Dir string `json:"-"`
	// ModelFile is the path of model.onnx in Dir.
	ModelFile string `json:"-"`
	// AdaptedFile is the path of the graph that takes low-rank adapters, over the same weights; empty for models
	// that cannot have them.
	AdaptedFile string `json:"-"`
	// VisionFile is the path of the graph that turns tiles of pictures into vectors, over the same weights; empty for
	// models of text only.
	VisionFile string `json:"-"`
	// StagesFile is the path of the graph that a text's pooled vector goes through, over the same weights; empty where
	// there is none.
	StagesFile string `json:"-"`
}

// CacheBytesPerToken is what the keys and values of one token take in all layers.
func (b Built) CacheBytesPerToken() int64 {
	numbers := 2 * b.KVHeads * b.HeadDim
	if b.Latent {
		numbers /= 2
	}
	return b.Layout.CacheBytesPerToken(b.Layers, numbers, b.HeadDim)
}
