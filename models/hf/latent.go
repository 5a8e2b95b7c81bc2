package hf

import "math"

// Latent is multi-head latent attention (DeepSeek-V2, 2024): a token has one vector, the latent, that all heads make
// their keys and values of, and one rotated key for all of them. The cache holds these two alone. Rank is 0 without.
//
// What a head makes of the latent is linear, so it is moved to the other side: queries are multiplied by the matrix of
// keys, and results by that of values. To the attention a model has one key head of Rope+Rank numbers, Config.HeadDim,
// the last Rank of which are its value.
type Latent struct {
	// Rank is the latent's width, QRank that of the vector that queries are made of, 0 if that is the residual stream.
	Rank, QRank int
	// A head's query and key have Nope numbers that are not rotated and Rope that are, and its value Value numbers.
	Nope, Rope, Value int
	// Eps is added to the mean squares of both vectors.
	Eps float64
}

// OutWidth returns the width of what heads give together.
func (c *Config) OutWidth() int {
	if c.Latent.Rank != 0 {
		return c.Heads * c.Latent.Value
	}
	return c.Heads * c.HeadDim
}

// CacheNumbers returns how many numbers the cache holds for a token in a layer.
func (c *Config) CacheNumbers() int {
	if c.Latent.Rank != 0 {
		return c.HeadDim
	}
	return 2 * c.KVHeads * c.HeadDim
}

// LatentDown returns layer i's matrices that make the vector of queries, or queries if there is none, and the latent
// with the rotated key.
func (c *Config) LatentDown(i int) (q, kv Slice) {
	l, t := c.Latent, c.Tensors
	kv = c.matrix(i, t.KVDown, l.Rank+l.Rope)
	if l.QRank == 0 {
		return c.matrix(i, t.Q, c.Heads*(l.Nope+l.Rope)), kv
	}
	return c.matrix(i, t.QDown, l.QRank), kv
}

// LatentUp returns layer i's matrix that makes queries of their vector, and that of keys and values: of each head first
// Nope rows of its key and then Value of its value.
func (c *Config) LatentUp(i int) (q, kv Slice) {
	l, t := c.Latent, c.Tensors
	return c.matrix(i, t.QUp, c.Heads*(l.Nope+l.Rope)), c.matrix(i, t.KVUp, c.Heads*(l.Nope+l.Value))
}

// readLatent reads the sizes of latent attention in place of those of heads.
func (c *Config) readLatent(o *object) {
	l := &c.Latent
	l.Rank = o.int("kv_lora_rank", 512, 8, maxWidth)
	l.QRank = 1536
	if o.has("q_lora_rank") { // null is none
		l.QRank = o.int("q_lora_rank", 0, 1, maxWidth)
	}
	l.Nope = o.int("qk_nope_head_dim", 128, 1, maxHeadDim)
	l.Rope = o.int("qk_rope_head_dim", 64, 2, maxHeadDim)
	l.Value = o.int("v_head_dim", 128, 1, maxHeadDim)
	l.Eps = 1e-6
	for _, key := range []string{"head_dim", "qk_head_dim"} { // which follow from the others
		o.raw(key)
	}
	if n := o.int("num_key_value_heads", c.Heads, 1, maxHeads); n != c.Heads {
		o.fail("num_key_value_heads", "%d: want num_attention_heads %d, as each head has keys of its own", n, c.Heads)
	}
	if l.Rope%2 != 0 {
		o.fail("qk_rope_head_dim", "%d: want an even number", l.Rope)
	}
	if c.HeadDim, c.KVHeads = l.Rank+l.Rope, 1; c.HeadDim > maxHeadDim || c.HeadDim%2 != 0 {
		o.fail("kv_lora_rank", "%d and qk_rope_head_dim %d: want a sum of at most %d, and even", l.Rank, l.Rope,
			maxHeadDim)
	}
}

// latentScale sets the scale of scores, which follows from the width of queries and how far positions are stretched.
func (c *Config) latentScale(o *object) {
	c.Rope.Dim = c.Latent.Rope
	c.Rope.Interleaved = o.bool("rope_interleave", c.Rope.Interleaved)
	c.Scales.Attention = 1 / math.Sqrt(float64(c.Latent.Nope+c.Latent.Rope))
	if m := c.Rope.ScoreScale; m != 0 {
		c.Scales.Attention *= m * m
	}
}
