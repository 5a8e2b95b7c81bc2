package hf

import (
	"cmp"
	"encoding/json"
	"slices"
)

// expertKeys are names of num_local_experts.
var expertKeys = map[string][]string{"num_local_experts": {"num_local_experts", "num_experts"}}

// qwenExperts names the tensors of Qwen's mixtures, and of OLMoE.
var qwenExperts = llama.with(func(t *Tensors) {
	t.Router, t.ExpertGate = "mlp.gate", "mlp.experts.%d.gate_proj"
	t.ExpertUp, t.ExpertDown = "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj"
	t.SharedGate, t.SharedUp = "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"
	t.SharedDown, t.SharedRouter = "mlp.shared_expert.down_proj", "mlp.shared_expert_gate"
})

// deepseekExperts names the tensors of DeepSeek's mixtures, and of those that came after them.
var deepseekExperts = llama.with(func(t *Tensors) {
	t.Router, t.RouterCorrection = "mlp.gate", "mlp.gate.e_score_correction_bias"
	t.ExpertGate, t.ExpertUp, t.ExpertDown = "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj",
		"mlp.experts.%d.down_proj"
	t.SharedGate, t.SharedUp = "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"
	t.SharedDown = "mlp.shared_experts.down_proj"
})

// latentNames also names the tensors of latent attention.
var latentNames = deepseekExperts.with(func(t *Tensors) {
	t.QDown, t.QUp, t.QDownNorm = "self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.q_a_layernorm"
	t.KVDown, t.KVUp, t.KVDownNorm = "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj", "self_attn.kv_a_layernorm"
})

// deepseekKeys are their names of Llama's and Mixtral's keys.
var deepseekKeys = map[string][]string{"num_local_experts": {"n_routed_experts", "num_local_experts"}}

// mixtures describes the classes whose layers have experts.
var mixtures = map[string]family{
	"MixtralForCausalLM": {modelType: "mixtral", norm: Norm{Eps: 1e-5}, theta: 1e6, window: optionalWindow,
		tensors: llama.with(func(t *Tensors) {
			t.Router, t.ExpertGate, t.ExpertUp, t.ExpertDown = "block_sparse_moe.gate",
				"block_sparse_moe.experts.%d.w1",
				"block_sparse_moe.experts.%d.w3", "block_sparse_moe.experts.%d.w2"
		}), more: func(o *object, c *Config) {
			c.readExperts(o, 2)
			c.Experts.Normalise = true
		}, ignored: routerIgnored},
	"Qwen2MoeForCausalLM": {modelType: "qwen2_moe", norm: rms, qkvBias: true, biasKey: true,
		noOutBias: true, window: switchedWindow, tensors: qwenExperts, keys: map[string][]string{
			"num_local_experts": {"num_local_experts", "num_experts"}, "attention_bias": {"qkv_bias"}},
		more: func(o *object, c *Config) {
			c.readExperts(o, 4)
			c.readSparseLayers(o)
			c.Experts.Shared = o.int("shared_expert_intermediate_size", 5632, 1, maxWidth)
			c.Experts.SharedGate = true
		}, ignored: routerIgnored},
	"Qwen3MoeForCausalLM": {modelType: "qwen3_moe", norm: rms, biasKey: true,
		qkNorm: QKNorm{Over: QKNormHead}, window: switchedWindow, tensors: qwenExperts, keys: expertKeys,
		more: func(o *object, c *Config) {
			c.readExperts(o, 8)
			c.readSparseLayers(o)
		}, ignored: routerIgnored},
	"OlmoeForCausalLM": {modelType: "olmoe", norm: Norm{Eps: 1e-5}, biasKey: true,
		qkNorm: QKNorm{Over: QKNormAll}, kvDefaultsToHeads: true, window: noWindow, tensors: qwenExperts,
		keys: expertKeys,
		more: func(o *object, c *Config) {
			c.readExperts(o, 8)
			c.ClipQKV = o.float("clip_qkv", 0, 1e-6, 1e18)
		}, ignored: routerIgnored},
	"GptOssForCausalLM": {modelType: "gpt_oss", norm: Norm{Eps: 1e-5},
		ropeParameters: `{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
			"truncate": false, "original_max_position_embeddings": 4096}`, qkvBias: true, biasKey: true, headDim: 64,
		window: patternWindow(2), keys: expertKeys, tensors: llama.with(func(t *Tensors) {
			t.Sinks, t.Router, t.ExpertsBare = "self_attn.sinks", "mlp.router", true
			t.ExpertGateUp, t.ExpertDown = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
		}), more: readGptOss, ignored: routerIgnored + " initial_context_length experts_per_token"},
	"GraniteMoeForCausalLM": {modelType: "granitemoe", norm: rms, biasKey: true,
		kvDefaultsToHeads: true, window: noWindow, tensors: llama.with(func(t *Tensors) {
			t.Router, t.ExpertGateUp, t.ExpertDown = "block_sparse_moe.router.layer", "block_sparse_moe.input_linear",
				"block_sparse_moe.output_linear"
		}), more: func(o *object, c *Config) {
			readGranite(o, c)
			c.readExperts(o, 2)
			c.Experts.Normalise = true
		}, ignored: routerIgnored},
	"GraniteMoeSharedForCausalLM": {modelType: "granitemoeshared", norm: rms, biasKey: true,
		kvDefaultsToHeads: true, window: noWindow, tensors: llama.with(func(t *Tensors) {
			t.Router, t.ExpertGateUp, t.ExpertDown = "block_sparse_moe.router.layer", "block_sparse_moe.input_linear",
				"block_sparse_moe.output_linear"
			t.SharedGateUp, t.SharedDown = "shared_mlp.input_linear", "shared_mlp.output_linear"
		}), more: func(o *object, c *Config) {
			readGranite(o, c)
			c.readExperts(o, 2)
			c.Experts.Normalise = true
			c.Experts.Shared = o.int("shared_intermediate_size", 1024, 0, maxWidth)
		}, ignored: routerIgnored},
	"FlexOlmoForCausalLM": {modelType: "flex_olmo", norm: rms, theta: 500000, biasKey: true,
		qkNorm: QKNorm{Over: QKNormAll}, kvDefaultsToHeads: true, window: noWindow, keys: expertKeys,
		tensors: qwenExperts.with(func(t *Tensors) {
			t.AttnNorm, t.MLPNorm, t.AttnPost, t.MLPPost = "", "", "post_attention_layernorm",
				"post_feedforward_layernorm"
		}), more: func(o *object, c *Config) { c.readExperts(o, 5) }, ignored: routerIgnored},
	"DeepseekV2ForCausalLM": {modelType: "deepseek_v2", norm: rms, biasKey: true, mlpBiasKey: true, latent: true,
		window: noWindow, interleaved: true, tensors: latentNames.with(func(t *Tensors) { t.RouterCorrection = "" }),
		keys: deepseekKeys, more: readDeepseekV2, ignored: routerIgnored},
	"DeepseekV3ForCausalLM": {modelType: "deepseek_v3", modelTypes: []string{"kimi_k2"}, norm: rms, biasKey: true,
		latent: true, window: noWindow, interleaved: true, tensors: latentNames, keys: deepseekKeys,
		more: func(o *object, c *Config) {
			c.readGrouped(o, likeDeepSeek{perToken: 8, shared: 1, dense: 3, normalise: true, scale: 2.5, groups: 8,
				taken: 4})
		}, ignored: routerIgnored},
	"Glm4MoeLiteForCausalLM": {modelType: "glm4_moe_lite", norm: Norm{Eps: 1e-5}, biasKey: true, latent: true,
		window: noWindow, interleaved: true, tensors: latentNames, keys: deepseekKeys,
		more: func(o *object, c *Config) {
			c.readGrouped(o, likeDeepSeek{perToken: 4, shared: 1, dense: 1, normalise: true, scale: 1.8})
		}, ignored: routerIgnored},
	"Glm4MoeForCausalLM": {modelType: "glm4_moe", norm: Norm{Eps: 1e-5}, biasKey: true, noOutBias: true,
		window: noWindow, partial: 0.5, tensors: deepseekExperts, keys: deepseekKeys,
		more: func(o *object, c *Config) {
			c.readGrouped(o, likeDeepSeek{perToken: 8, shared: 1, dense: 1, normalise: true})
			if o.bool("use_qk_norm", false) {
				c.QKNorm.Over = QKNormHead
			}
		}, ignored: routerIgnored},
	"SolarOpenForCausalLM": {modelType: "solar_open", norm: Norm{Eps: 1e-5}, theta: 1e6, biasKey: true,
		noOutBias: true, inner: 4, headDim: 128, window: noWindow, partial: 1, tensors: deepseekExperts,
		keys: deepseekKeys, more: func(o *object, c *Config) {
			c.readGrouped(o, likeDeepSeek{perToken: 8, shared: 1, normalise: true})
		}, ignored: routerIgnored},
	"Dots1ForCausalLM": {modelType: "dots1", norm: rms, biasKey: true, qkNorm: QKNorm{Over: QKNormHead},
		kvDefaultsToHeads: true, window: lateWindow, tensors: deepseekExperts, keys: deepseekKeys,
		more: func(o *object, c *Config) { c.readGrouped(o, likeDeepSeek{perToken: 8}) }, ignored: routerIgnored},
	"ExaoneMoeForCausalLM": {modelType: "exaone_moe", norm: Norm{Eps: 1e-5}, qkNorm: QKNorm{Over: QKNormHead},
		kvDefaultsToHeads: true, window: patternWindow(4), tensors: deepseekExperts.with(func(t *Tensors) {
			t.RouterCorrection = "mlp.e_score_correction_bias"
		}), keys: map[string][]string{
			"num_local_experts": {"num_experts"}, "n_shared_experts": {"num_shared_experts"}},
		more: func(o *object, c *Config) {
			c.readGrouped(o, likeDeepSeek{perToken: 8, shared: 1, dense: 1, normalise: true, scale: 2.5})
			c.Unused = append(c.Unused, "mtp.")
			if _, windows := o.raw("sliding_window"); windows || !o.has("sliding_window") {
				c.ropeInWindows()
			}
		}, ignored: routerIgnored},
	"Ernie4_5_MoeForCausalLM": {modelType: "ernie4_5_moe", norm: Norm{Eps: 1e-5}, theta: 500000, tied: true,
		kvDefaultsToHeads: true, window: noWindow, interleaved: true, keys: map[string][]string{
			"num_local_experts":   {"moe_num_experts", "num_experts"},
			"num_experts_per_tok": {"moe_k", "num_experts_per_tok"}},
		tensors: deepseekExperts.with(func(t *Tensors) {
			t.RouterCorrection = "mlp.moe_statics.e_score_correction_bias"
		}), more: readErnie, ignored: routerIgnored + " moe_capacity moe_multimodal_paired_experts"},
	"HunYuanMoEV1ForCausalLM": {modelType: "hunyuan_v1_moe", modelTypes: []string{"hunyuan"}, norm: Norm{Eps: 1e-5},
		qkNorm: QKNorm{Over: QKNormHead, AfterRotary: true}, ropeAlpha: true, biasKey: true, kvDefaultsToHeads: true,
		window: noWindow, keys: map[string][]string{"num_local_experts": {"num_experts"},
			"num_experts_per_tok": {"moe_topk"}},
		tensors: deepseekExperts.with(func(t *Tensors) {
			t.QNorm, t.KNorm = "self_attn.query_layernorm", "self_attn.key_layernorm"
			t.Router, t.RouterCorrection = "mlp.gate.wg", ""
			t.SharedGate, t.SharedUp, t.SharedDown = "mlp.shared_mlp.gate_proj", "mlp.shared_mlp.up_proj",
				"mlp.shared_mlp.down_proj"
		}), more: readHunYuanMoE, ignored: routerIgnored + " " + hunYuanIgnored},
	"MiniMaxM2ForCausalLM": {modelType: "minimax_m2", norm: rms, theta: 5e6, qkNorm: QKNorm{Over: QKNormAll},
		headDim: 128, window: noWindow, partial: 1, keys: expertKeys, tensors: llama.with(func(t *Tensors) {
			t.Router, t.RouterCorrection = "block_sparse_moe.gate", "block_sparse_moe.e_score_correction_bias"
			t.ExpertGate, t.ExpertUp, t.ExpertDown = "block_sparse_moe.experts.%d.w1",
				"block_sparse_moe.experts.%d.w3", "block_sparse_moe.experts.%d.w2"
		}), more: readMiniMax, ignored: routerIgnored + " use_qk_norm use_routing_bias use_mtp num_mtp_modules " +
			"mtp_transformer_layers shared_intermediate_size shared_moe_mode max_model_len output_attentions " +
			"layernorm_full_attention_beta layernorm_linear_attention_beta layernorm_mlp_beta"},
}

// routerIgnored lists keys of training.
const routerIgnored = "router_aux_loss_coef router_jitter_noise output_router_logits router_z_loss_coef aux_loss_alpha " +
	"seq_aux ep_size"

// readExperts reads the sizes of a mixture; perToken is the default of how many experts a token takes.
func (c *Config) readExperts(o *object, perToken int) {
	e := &c.Experts
	e.N = o.requireInt("num_local_experts", 1, maxExperts)
	e.PerToken = o.int("num_experts_per_tok", perToken, 1, maxExperts)
	if e.PerToken > e.N {
		o.fail("num_experts_per_tok", "%d is more than the %d experts", e.PerToken, e.N)
	}
	e.Intermediate = o.int("moe_intermediate_size", c.Intermediate, 1, maxWidth)
	e.Normalise = o.bool("norm_topk_prob", false)
}

// likeDeepSeek are the defaults of a class whose mixture is like DeepSeek's.
type likeDeepSeek struct {
	perToken, shared, dense int
	normalise               bool
	scale                   float64
	groups, taken           int
}

// readGrouped reads a mixture like DeepSeek-V3's: shares are sigmoids with a correction, experts may be in groups, some
// MLPs are taken by all tokens, and the first layers are dense.
func (c *Config) readGrouped(o *object, def likeDeepSeek) {
	c.readExperts(o, def.perToken)
	e := &c.Experts
	e.Normalise = o.bool("norm_topk_prob", def.normalise)
	for key, only := range map[string]string{"scoring_func": "sigmoid", "topk_method": "noaux_tc"} {
		if s := o.string(key, only); s != only {
			o.fail(key, "%q is not supported, want %s", s, only)
		}
	}
	e.Sigmoid, e.Corrected, e.Least = true, true, 1e-20
	e.Scale = o.float("routed_scaling_factor", cmp.Or(def.scale, 1), 1e-6, 1e6)
	e.Shared = e.Intermediate * o.int("n_shared_experts", def.shared, 0, maxExperts)
	c.readGroups(o, 2, cmp.Or(def.groups, 1), cmp.Or(def.taken, 1))
	c.readDense(o, def.dense)
	c.readFurther(o)
}

// readDeepseekV2 reads DeepSeek-V2's mixture.
func readDeepseekV2(o *object, c *Config) {
	c.readExperts(o, 0)
	e := &c.Experts
	e.Scale = o.float("routed_scaling_factor", 1, 1e-6, 1e6)
	e.Shared = e.Intermediate * o.int("n_shared_experts", 2, 0, maxExperts)
	e.Normalise = false // a key that the class has and does not use
	if s := o.string("scoring_func", "softmax"); s != "softmax" {
		o.fail("scoring_func", "%q is not supported, want softmax", s)
	}
	switch method := o.string("topk_method", "greedy"); method {
	case "greedy":
		o.raw("n_group")
		o.raw("topk_group")
	case "group_limited_greedy":
		c.readGroups(o, 1, 1, 1)
	default:
		o.fail("topk_method", "%q is not supported, want greedy or group_limited_greedy", method)
	}
	c.readDense(o, 0)
}

// readGroups reads groups of experts, which count as their best experts, so many; n and taken are the defaults of how
// many there are and how many a token takes.
func (c *Config) readGroups(o *object, best, n, taken int) {
	e := &c.Experts
	n = o.int("n_group", n, 1, maxExperts)
	taken = o.int("topk_group", taken, 1, maxExperts)
	switch {
	case o.err != nil || n == 1:
		return
	case e.N%n != 0 || e.N/n < best:
		o.fail("n_group", "%d groups of at least %d of %d experts", n, best, e.N)
	case taken > n || taken*(e.N/n) < e.PerToken:
		o.fail("topk_group", "%d of %d groups, for %d of %d experts", taken, n, e.PerToken, e.N)
	}
	e.Groups, e.GroupsPerToken, e.GroupBest = n, taken, best
}

// readDense reads which layers have an ordinary MLP: the first ones, or those that mlp_layer_types names.
func (c *Config) readDense(o *object, first int) {
	first = o.int("first_k_dense_replace", first, 0, maxLayers)
	if n := o.int("moe_layer_freq", 1, 1, maxLayers); n != 1 {
		o.fail("moe_layer_freq", "%d: mixtures in each layer behind the first ones only are supported", n)
	}
	types := o.strings("mlp_layer_types")
	if types != nil && len(types) != c.Layers {
		o.fail("mlp_layer_types", "has %d entries, want num_hidden_layers %d", len(types), c.Layers)
		return
	}
	c.Experts.Plain = make([]bool, c.Layers)
	for i := range c.Experts.Plain {
		c.Experts.Plain[i] = i < first
		if types != nil {
			c.Experts.Plain[i] = types[i] == "dense"
			if types[i] != "dense" && types[i] != "sparse" {
				o.fail("mlp_layer_types", "layer %d is %q, want dense or sparse", i, types[i])
			}
		}
	}
}

// readFurther reads how many layers behind the others guess further tokens, which are not read.
func (c *Config) readFurther(o *object) {
	for i := range o.int("num_nextn_predict_layers", 0, 0, 64) {
		c.Unused = append(c.Unused, c.Tensors.InLayer(c.Layers+i, ""))
	}
}

// readErnie reads ERNIE 4.5's mixture.
func readErnie(o *object, c *Config) {
	c.readExperts(o, 6)
	e := &c.Experts
	e.Normalise, e.Corrected, e.CorrectionRow = true, true, true
	e.Least = o.float("moe_norm_min", 1e-12, 0, 1)
	e.Shared = e.Intermediate * o.int("moe_num_shared_experts", 2, 0, maxExperts)
	c.Unused = []string{"model.mtp_", "mtp."}
	first, every := o.int("moe_layer_start_index", 1, 0, maxLayers), o.int("moe_layer_interval", 1, 1, maxLayers)
	last := o.int("moe_layer_end_index", -1, -1, maxLayers)
	e.Plain = make([]bool, c.Layers)
	for i := range e.Plain {
		e.Plain[i] = (i+1)%every != 0 || i < first || last >= 0 && i > last
	}
	if n := o.int("num_nextn_predict_layers", 0, 0, 64); n > 0 {
		c.Unused = append(c.Unused, "model.mtp")
	}
}

// hunYuanIgnored lists keys of HunYuan's checkpoints that transformers does not read.
const hunYuanIgnored = "eod_token_id im_start_id im_end_id im_newline_id pad_id mask_init_id sep_token_id use_qk_norm " +
	"use_rotary_pos_emb norm_type attention_head_dim cla_share_factor class_num org_vocab_size text_start_id " +
	"text_end_id dense_list use_mixed_mlp_moe moe_drop_tokens moe_random_routing_dropped_token moe_layer_num_skipped " +
	"norm_topk_prob use_cla capacity_factor group_limited_greedy routed_scaling_factor"

// readHunYuanMoE reads HunYuan's mixture, all of whose MLPs are equally wide. Some numbers may be lists with one for
// each layer.
func readHunYuanMoE(o *object, c *Config) {
	for _, key := range []string{"num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
		"num_shared_expert"} {
		o.same(key)
	}
	c.readExperts(o, 1)
	c.Experts.Normalise = true
	c.Experts.Shared = c.Intermediate
	if c.Experts.Intermediate != c.Intermediate {
		o.fail("moe_intermediate_size", "%d: experts of another width than intermediate_size %d are not supported",
			c.Experts.Intermediate, c.Intermediate)
	}
	if n := o.int("num_shared_expert", 1, 0, maxExperts); n != 1 {
		o.fail("num_shared_expert", "%d: want 1", n)
	}
}

// readMiniMax reads MiniMax-M2's mixture.
func readMiniMax(o *object, c *Config) {
	c.readExperts(o, 8)
	e := &c.Experts
	e.Normalise, e.Sigmoid, e.Corrected, e.Least = true, true, true, 1e-20
	o.same("attn_type_list")
	if o.int("attn_type_list", 1, 0, 9) != 1 {
		o.fail("attn_type_list", "linear attention is not supported")
	}
	if n := o.int("rotary_dim", 0, 2, c.HeadDim); n != 0 && n != c.HeadDim {
		c.Rope.Dim = n
	}
	c.Unused = []string{"model.mtp."}
}

// same takes a list of equal numbers for one of them.
func (o *object) same(key string) {
	key = o.name(key)
	var list []json.RawMessage
	if json.Unmarshal(o.values[key], &list) != nil || len(list) == 0 {
		return
	}
	for i, v := range list {
		if string(v) != string(list[0]) {
			o.fail(key, "is %s in layer %d and %s in layer 0, which is not supported", shorten(v), i, shorten(list[0]))
		}
	}
	o.values[key] = list[0]
}

// readGptOss reads gpt-oss' mixture, which the published checkpoints hold in MXFP4.
func readGptOss(o *object, c *Config) {
	c.readExperts(o, 4)
	e := &c.Experts
	e.Normalise, e.Bias, e.Alternate = true, true, true
	e.Clamp = Clamp{Alpha: o.float("swiglu_alpha", 1.702, 1e-3, 1e3), Limit: o.float("swiglu_limit", 7, 1e-3, 1e6)}
	if q := o.object("quantization_config"); q != nil {
		if method := q.string("quant_method", ""); method != "mxfp4" {
			o.fail("quantization_config", "quant_method is %q, want mxfp4", method)
		}
		e.Packed = true
	}
}

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 10

// readSparseLayers reads which layers are mixtures: each n-th, and not those of mlp_only_layers.
func (c *Config) readSparseLayers(o *object) {
	every := o.int("decoder_sparse_step", 1, 1, maxLayers)
	var plain []int
	if v, ok := o.raw("mlp_only_layers"); ok && json.Unmarshal(v, &plain) != nil {
		o.fail("mlp_only_layers", "want a list of numbers, got %s", shorten(v))
	}
	c.Experts.Plain = make([]bool, c.Layers)
	for i := range c.Experts.Plain {
		c.Experts.Plain[i] = (i+1)%every != 0 || slices.Contains(plain, i)
	}
}
