package hf

import (
	"fmt"
	"sync"

	"tgi/models/tensors"
)

// Values of the key expert_gating_func.
const (
	gatingSoftmax = 1
	gatingSigmoid = 2
)

// further is how many of the file's last layers guess further tokens, which are not read.
func (g *ggufModel) further() float64 {
	n := g.ownOr("nextn_predict_layers", 0)
	if n < 0 || n > 64 || n != float64(int(n)) || n >= g.ownOr("block_count", 0) && n > 0 {
		g.fail("%s.nextn_predict_layers: %g: want at most 64, and fewer than block_count", g.arch, n)
		return 0
	}
	return n
}

// dense is how many of the first layers have no experts.
func (g *ggufModel) dense() int {
	return int(min(max(g.ownOr("leading_dense_block_count", 0), 0), maxLayers))
}

// deepseekOfGGUF tells DeepSeek-V3's routing, of sigmoids with a correction, from V2's. Early files do not name it.
func deepseekOfGGUF(g *ggufModel) string {
	sigmoid := g.has(fmt.Sprintf("blk.%d.exp_probs_b.bias", g.dense()))
	switch v := g.ownOr("expert_gating_func", 0); {
	case v == gatingSigmoid, v == 0 && sigmoid:
		return "DeepseekV3ForCausalLM"
	case v != 0 && v != gatingSoftmax:
		g.fail("%s.expert_gating_func: %g is not supported, want %d or %d", g.arch, v, gatingSoftmax, gatingSigmoid)
	}
	return "DeepseekV2ForCausalLM"
}

// grouped puts the sizes of a mixture like DeepSeek's.
func (g *ggufModel) grouped(put func(string, any)) {
	put("num_local_experts", g.ownOr("expert_count", 0))
	put("num_experts_per_tok", g.ownOr("expert_used_count", 0))
	put("moe_intermediate_size", g.dim(fmt.Sprintf("blk.%d.ffn_down_exps.weight", g.dense()), 0))
	put("n_shared_experts", g.ownOr("expert_shared_count", 0))
	put("first_k_dense_replace", g.dense())
	put("n_group", max(g.ownOr("expert_group_count", 1), 1))
	put("topk_group", max(g.ownOr("expert_group_used_count", 1), 1))
	put("routed_scaling_factor", max(g.ownOr("expert_weights_scale", 1), 0))
	normalise := g.ownOr("expert_weights_norm", 0) != 0
	put("norm_topk_prob", normalise)
	if g.kind.class == "DeepseekV2ForCausalLM" {
		put("topk_method", "greedy")
		if g.ownOr("expert_group_count", 1) > 1 {
			put("topk_method", "group_limited_greedy")
		}
		if normalise {
			g.fail("%s.expert_weights_norm: true is not supported beside shares that are a softmax", g.arch)
		}
		return
	}
	if v := g.ownOr("expert_gating_func", gatingSigmoid); v != gatingSigmoid && v != 0 {
		g.fail("%s.expert_gating_func: %g is not supported, want %d", g.arch, v, gatingSigmoid)
	}
}

// latent puts the sizes of latent attention. Early files have heads' keys and values in one matrix, and no keys of
// their own for the widths of both.
func (g *ggufModel) latent(put func(string, any)) {
	rotated := g.ownOr("rope.dimension_count", 0)
	put("kv_lora_rank", g.ownOr("attention.kv_lora_rank", 0))
	put("q_lora_rank", nil)
	if n := g.ownOr("attention.q_lora_rank", 0); n != 0 {
		put("q_lora_rank", n)
	}
	put("qk_rope_head_dim", rotated)
	put("qk_nope_head_dim", g.ownOr("attention.key_length_mla", g.ownOr("attention.key_length", 0))-rotated)
	put("v_head_dim", g.ownOr("attention.value_length_mla", g.ownOr("attention.value_length", 0)))
}

// joinLatent makes the matrix of keys and values of those that a layer has apart, at being what their names begin with.
func joinLatent(c *Config, set *tensors.Set, at string) error {
	l, h := c.Latent, int64(c.Heads)
	if !set.Has(at + "attn_k_b.weight") {
		return nil
	}
	k, err := set.Tensor(at + "attn_k_b.weight")
	if err != nil {
		return err
	}
	v, err := set.Tensor(at + "attn_v_b.weight")
	if err != nil {
		return err
	}
	for t, want := range map[*tensors.Tensor][3]int64{k: {h, int64(l.Rank), int64(l.Nope)},
		v: {h, int64(l.Value), int64(l.Rank)}} {
		if len(t.Shape) != 3 || [3]int64(t.Shape) != want {
			return fmt.Errorf("%s: %w: tensor %q has shape %v, want %v", t.File, tensors.ErrFormat, t.Name, t.Shape, want)
		}
		if err := t.Floats(make([]float32, 1), 0); err != nil {
			return err
		}
	}
	set.Remove(k.Name, v.Name)
	name := at + "attn_kv_b.weight"
	set.Put(name, tensors.NewComputed(name, tensors.F32, []int64{h * int64(l.Nope+l.Value), int64(l.Rank)}, k.File,
		&latentRows{latent: l, k: k, v: v, head: -1}))
	return nil
}

// latentRows are the rows that LatentUp describes, of a tensor of keys, [heads, Rank, Nope], and one of values, [heads,
// Value, Rank].
type latentRows struct {
	latent Latent
	k, v   *tensors.Tensor

	mu sync.Mutex
	// keys are those of head, -1 before the first.
	head int
	keys []float32
}

// Row returns a row of a key or of a value. joinLatent has checked that both tensors have values.
func (r *latentRows) Row(dst []float32, i int) {
	l := r.latent
	head, row := i/(l.Nope+l.Value), i%(l.Nope+l.Value)
	if row >= l.Nope {
		_ = r.v.Floats(dst, (head*l.Value+row-l.Nope)*l.Rank)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if head != r.head {
		r.keys, r.head = make([]float32, l.Rank*l.Nope), head
		_ = r.k.Floats(r.keys, head*l.Rank*l.Nope)
	}
	for n := range dst {
		dst[n] = r.keys[n*l.Nope+row]
	}
}

// Form says that there are no integers.
func (r *latentRows) Form() tensors.Form { return tensors.Form{} }

// Integers gives none.
func (r *latentRows) Integers([]int8, int, int) (scale, offset float32) { return 0, 0 }
