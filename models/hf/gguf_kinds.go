package hf

import (
	"maps"
	"math"
	"slices"
)

// ggufKind says how an architecture of the GGUF format is read.
type ggufKind struct {
	// class is that of the families table; mixture that of a model with experts, windowed that of one with a sliding
	// window, if those are others.
	class, mixture, windowed string
	// choose, if set, finds the class.
	choose func(g *ggufModel) string
	// pairs says that rows of queries and keys lie so that those beside each other are rotated, though in the class'
	// checkpoints the first half of a head is rotated with the second.
	pairs bool
	// windowRope says that layers with a window have a rotary embedding of their own.
	windowRope bool
	// rope adds to the parameters of the rotary embedding.
	rope func(g *ggufModel, p map[string]any)
	// more puts keys that only this class has.
	more func(g *ggufModel, put func(key string, v any))
}

var ggufKinds = map[string]ggufKind{
	"llama": {class: "LlamaForCausalLM", mixture: "MixtralForCausalLM", pairs: true, more: func(g *ggufModel,
		put func(string, any)) {
		g.experts(put, true)
	}},
	"mistral3": {class: "Ministral3ForCausalLM", pairs: true, more: func(g *ggufModel, put func(string, any)) {
		g.window(put, 0)
	}, rope: func(g *ggufModel, p map[string]any) {
		if beta, ok := g.own("attention.temperature_scale"); ok {
			p["llama_4_scaling_beta"] = beta
		}
	}},
	"qwen2": {class: "Qwen2ForCausalLM"},
	"qwen3": {class: "Qwen3ForCausalLM"},
	"qwen2moe": {class: "Qwen2MoeForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.experts(put,
			false)
	}},
	"qwen3moe": {class: "Qwen3MoeForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.experts(put,
			true)
	}},
	"olmoe":     {class: "OlmoeForCausalLM", more: func(g *ggufModel, put func(string, any)) { g.experts(put, false) }},
	"seed_oss":  {class: "SeedOssForCausalLM"},
	"ernie4_5":  {class: "Ernie4_5ForCausalLM"},
	"arcee":     {class: "ArceeForCausalLM", pairs: true},
	"nemotron":  {class: "NemotronForCausalLM"},
	"glm4":      {class: "Glm4ForCausalLM"},
	"chatglm":   {class: "GlmForCausalLM"},
	"bloom":     {class: "BloomForCausalLM"},
	"gpt2":      {class: "GPT2LMHeadModel"},
	"olmo":      {class: "OlmoForCausalLM", pairs: true, more: olmoOfGGUF},
	"smollm3":   {class: "SmolLM3ForCausalLM", pairs: true},
	"granite":   {class: "GraniteForCausalLM", pairs: true, more: graniteOfGGUF},
	"phi2":      {class: "PhiForCausalLM"},
	"command-r": {class: "CohereForCausalLM", more: cohereOfGGUF},
	"gemma":     {class: "GemmaForCausalLM"},
	"gemma2": {class: "Gemma2ForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.window(put, 2)
		g.caps(put, 50, 30)
		g.scores(put, 46)
	}},
	"gemma3": {class: "Gemma3ForCausalLM", windowRope: true, more: func(g *ggufModel, put func(string, any)) {
		g.window(put, 6)
		g.caps(put, 0, 0)
		g.scores(put, 62)
	}},
	"phi3": {class: "Phi3ForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		if w := g.ownOr("attention.sliding_window", 0); w > 0 {
			put("sliding_window", w)
		}
	}},
	"starcoder2": {class: "Starcoder2ForCausalLM"},
	"stablelm": {class: "StableLmForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		put("use_parallel_residual", !g.has("blk.0.ffn_norm.weight"))
		put("qk_layernorm", g.has("blk.0.attn_q_norm.weight"))
	}},
	"gptneox": {class: "GPTNeoXForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		put("use_parallel_residual", g.ownOr("use_parallel_residual", 1) != 0)
	}},
	"falcon": {class: "FalconForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		put("num_kv_heads", g.perLayer("attention.head_count_kv", 1))
		two := g.has("blk.0.attn_norm_2.weight")
		put("new_decoder_architecture", true) // which has the number of key heads
		put("num_ln_in_parallel_attn", map[bool]int{false: 1, true: 2}[two])
	}},
	"olmo2": {class: "Olmo2ForCausalLM", windowed: "Olmo3ForCausalLM", more: func(g *ggufModel,
		put func(string, any)) {
		if g.kind.class == "Olmo3ForCausalLM" {
			g.window(put, 4)
		}
	}},
	"cohere2": {class: "Cohere2ForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.window(put, 4)
		cohereOfGGUF(g, put)
	}},
	"exaone4":       {class: "Exaone4ForCausalLM", more: func(g *ggufModel, put func(string, any)) { g.window(put, 4) }},
	"hunyuan-dense": {class: "HunYuanDenseV1ForCausalLM"},
	"granitemoe": {class: "GraniteMoeForCausalLM", pairs: true, more: func(g *ggufModel, put func(string, any)) {
		graniteOfGGUF(g, put)
		g.experts(put, true)
	}},
	"deepseek2": {choose: deepseekOfGGUF, more: func(g *ggufModel, put func(string, any)) {
		g.grouped(put)
		g.latent(put)
	}, rope: func(_ *ggufModel, p map[string]any) {
		for _, key := range []string{"mscale", "mscale_all_dim"} { // of which converters write a tenth
			if m, ok := p[key].(float64); ok {
				p[key] = m * 10
			}
		}
	}},
	"glm4moe": {class: "Glm4MoeForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.grouped(put)
		put("use_qk_norm", g.has("blk.0.attn_q_norm.weight"))
	}},
	"dots1": {class: "Dots1ForCausalLM", more: func(g *ggufModel, put func(string, any)) { g.grouped(put) }},
	"gpt-oss": {class: "GptOssForCausalLM", more: func(g *ggufModel, put func(string, any)) {
		g.window(put, 2)
		g.experts(put, true)
	}, rope: func(_ *ggufModel, p map[string]any) { p["truncate"] = false }},
}

// GGUFArchitectures lists the architectures of the GGUF format that are read.
func GGUFArchitectures() []string { return slices.Sorted(maps.Keys(ggufKinds)) }

// experts puts the sizes of a mixture. normalise is whether the weights of a token's experts add up to 1, if the file
// does not say.
func (g *ggufModel) experts(put func(string, any), normalise bool) {
	n, ok := g.own("expert_count")
	if !ok || n == 0 {
		return
	}
	put("num_local_experts", n)
	put("num_experts_per_tok", g.ownOr("expert_used_count", 0))
	put("moe_intermediate_size", g.dim("blk.0.ffn_down_exps.weight", 0))
	if shared := g.dim("blk.0.ffn_down_shexp.weight", 0); shared > 0 {
		put("shared_expert_intermediate_size", shared)
	}
	put("norm_topk_prob", g.ownOr("expert_weights_norm", map[bool]float64{true: 1}[normalise]) != 0)
	for key, only := range map[string]float64{"expert_gating_func": 1, "expert_group_count": 0,
		"expert_weights_scale": 1} {
		if v, ok := g.own(key); ok && v != only && v != 0 {
			g.fail("%s.%s: %g is not supported", g.arch, key, v)
		}
	}
}

// caps puts Gemma's bounds of scores and logits.
func (g *ggufModel) caps(put func(string, any), attention, logits float64) {
	for key, def := range map[string]float64{"attn_logit_softcapping": attention, "final_logit_softcapping": logits} {
		if v := g.ownOr(key, def); v != 0 {
			put(key, v)
		} else {
			put(key, nil)
		}
	}
}

// scores puts the scale of Gemma's scores, which files do not hold: that of a head's width, and in the largest model,
// which is known by the number of its layers, that of the hidden width over the heads.
func (g *ggufModel) scores(put func(string, any), largest float64) {
	dim := g.headDim()
	if g.ownOr("block_count", 0) == largest {
		dim = g.ownOr("embedding_length", 0) / math.Max(g.perLayer("attention.head_count", 1), 1)
	}
	put("query_pre_attn_scalar", dim)
}

func graniteOfGGUF(g *ggufModel, put func(string, any)) {
	for key, name := range map[string]string{"embedding_scale": "embedding_multiplier",
		"residual_scale": "residual_multiplier", "attention.scale": "attention_multiplier",
		"logit_scale": "logits_scaling"} {
		if v := g.ownOr(key, 0); v != 0 {
			put(name, v)
		}
	}
	if g.ownOr("attention.scale", 0) == 0 {
		put("attention_multiplier", 1/math.Sqrt(g.headDim()))
	}
}

func cohereOfGGUF(g *ggufModel, put func(string, any)) {
	put("logit_scale", g.ownOr("logit_scale", 1))
	put("use_qk_norm", g.has("blk.0.attn_q_norm.weight"))
}

func olmoOfGGUF(g *ggufModel, put func(string, any)) {
	if clip := g.ownOr("attention.clamp_kqv", 0); clip > 0 {
		put("clip_qkv", clip)
	}
}
