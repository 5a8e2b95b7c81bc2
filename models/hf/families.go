package hf

import (
	"encoding/json"
	"maps"
	"math"
)

// family describes an architecture: how its config.json is read and where it differs from Llama's. docs/models.md
// ("Adding an architecture") says how to add one.
type family struct {
	modelType string
	// modelTypes are others that checkpoints of the class have.
	modelTypes []string
	// keys maps a key of config.json, as Llama has it, to the names that the family has for it.
	keys map[string][]string
	// norm with Eps the default of rms_norm_eps; fixedEps says that config.json has none.
	norm     Norm
	fixedEps bool
	qkNorm   QKNorm
	// qkvBias, outBias and mlpBias are fixed by the architecture, or the defaults of attention_bias and mlp_bias where
	// biasKey and mlpBiasKey say that these keys are read. noOutBias: attention_bias leaves out the output.
	qkvBias, outBias, mlpBias      bool
	biasKey, mlpBiasKey, noOutBias bool
	parallel, ungated              bool
	// latent says that the attention is latent.
	latent bool
	// tied is the default of tie_word_embeddings.
	tied bool
	// activation is the default of hidden_act, as Hugging Face names it; "" is silu.
	activation string
	// inner is the default of intermediate_size, in multiples of hidden_size, positions that of
	// max_position_embeddings; 0 requires the key. headDim is that of head_dim; 0 derives it.
	inner, positions, headDim int
	// kvDefaultsToHeads: num_key_value_heads may be absent. noKVKey: there is no such key, each head has its own keys.
	kvDefaultsToHeads, noKVKey bool
	window                     func(o *object, layers int) []int
	// noRope says that positions are not rotated. Else partial is the default share of a head that is; 0 is all.
	noRope      bool
	partial     float64
	interleaved bool
	// theta is the default of rope_theta, windowTheta that of layers with a window, if they have one of their own;
	// ropeParameters the default of rope_parameters. 0 is 10000.
	theta, windowTheta float64
	ropeParameters     string
	// ropeAlpha says that rope type dynamic may have alpha, which enlarges the base.
	ropeAlpha bool
	tensors   Tensors
	// more reads what only this family has, after all the rest.
	more func(o *object, c *Config)
	// ignored lists keys without effect on the logits that only this family has.
	ignored string
}

// Names of keys in families of their own.
var (
	gptKeys = map[string][]string{
		"hidden_size": {"n_embd"}, "num_hidden_layers": {"n_layer"}, "num_attention_heads": {"n_head"},
		"intermediate_size": {"n_inner"}, "max_position_embeddings": {"n_positions"},
		"rms_norm_eps": {"layer_norm_epsilon"}, "hidden_act": {"activation_function"},
	}
	layerNormKeys = map[string][]string{"rms_norm_eps": {"layer_norm_eps"}}
)

// Kinds of norms that several families share.
var (
	rms       = Norm{Eps: 1e-6}
	layerNorm = Norm{Layer: true, Bias: true, Eps: 1e-5}
	gemmaNorm = Norm{Offset: 1, Eps: 1e-6}
)

// Names of tensors that several families share.
var (
	// postNorm has norms behind attention and MLP only.
	postNorm = llama.with(func(t *Tensors) {
		t.AttnNorm, t.MLPNorm, t.AttnPost, t.MLPPost = "", "", "post_attention_layernorm", "post_feedforward_layernorm"
	})
	// gemma2 has norms before and behind.
	gemma2 = llama.with(func(t *Tensors) {
		t.AttnPost, t.MLPNorm, t.MLPPost = "post_attention_layernorm", "pre_feedforward_layernorm",
			"post_feedforward_layernorm"
	})
	// fused stacks gate and up.
	fused = llama.with(func(t *Tensors) { t.GateUp = "mlp.gate_up_proj" })
	// sharedNorm has one norm for attention and MLP.
	sharedNorm = llama.with(func(t *Tensors) { t.MLPNorm = "" })
	// bigScience is BLOOM's and Falcon's.
	bigScience = Tensors{
		Base: "transformer.", Embed: "word_embeddings", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.",
		AttnNorm: "input_layernorm", MLPNorm: "post_attention_layernorm", QKV: "self_attention.query_key_value",
		QKVByHead: true, Out: "self_attention.dense", Up: "mlp.dense_h_to_4h", Down: "mlp.dense_4h_to_h",
	}
)

// families describes each class, dense ones here and in older, mixtures of experts in mixtures.
var families = merged(map[string]family{
	"LlamaForCausalLM": {modelType: "llama", norm: rms, biasKey: true, mlpBiasKey: true, kvDefaultsToHeads: true,
		window: noWindow, tensors: llama},
	"MistralForCausalLM": {modelType: "mistral", norm: rms, window: everyLayerWindow, tensors: llama},
	"MinistralForCausalLM": {modelType: "ministral", norm: rms, positions: 131072, window: patternWindow(maxLayers + 1),
		tensors: llama},
	"Ministral3ForCausalLM": {modelType: "ministral3", norm: Norm{Eps: 1e-5}, window: optionalWindow, tensors: llama,
		ropeParameters: `{"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "mscale": 1.0,
			"mscale_all_dim": 1.0, "original_max_position_embeddings": 16384, "llama_4_scaling_beta": 0.1}`},
	"Qwen2ForCausalLM": {modelType: "qwen2", norm: rms, qkvBias: true, window: switchedWindow, tensors: llama},
	"Qwen3ForCausalLM": {modelType: "qwen3", norm: rms, biasKey: true, qkNorm: QKNorm{Over: QKNormHead}, headDim: 128,
		window: switchedWindow, tensors: llama},

	"GemmaForCausalLM": {modelType: "gemma", norm: gemmaNorm, biasKey: true, tied: true, headDim: 256,
		activation: "gelu_pytorch_tanh", window: noWindow, tensors: llama, more: func(o *object, c *Config) {
			c.Scales.Embed = math.Sqrt(float64(c.Hidden))
			// Early checkpoints say gelu and were trained with the approximation.
			if c.Activation == GELU {
				c.Activation = GELUTanh
			}
		}},
	"Gemma2ForCausalLM": {modelType: "gemma2", norm: gemmaNorm, biasKey: true, tied: true, headDim: 256,
		keys:       map[string][]string{"hidden_act": {"hidden_activation"}},
		activation: "gelu_pytorch_tanh", window: patternWindow(2), tensors: gemma2, more: func(o *object, c *Config) {
			c.readGemma(o, 50, 30)
		}},
	"Gemma3ForCausalLM": {modelType: "gemma3_text", norm: gemmaNorm, theta: 1e6, windowTheta: 10000,
		qkNorm: QKNorm{Over: QKNormHead}, biasKey: true,
		tied: true, headDim: 256, keys: map[string][]string{"hidden_act": {"hidden_activation"}},
		activation: "gelu_pytorch_tanh", window: patternWindow(6), tensors: gemma2, more: func(o *object, c *Config) {
			c.readGemma(o, 0, 0)
			c.AttentionCap = 0 // a key that the class has and does not use
		}},

	"Phi3ForCausalLM": {modelType: "phi3", norm: Norm{Eps: 1e-5}, kvDefaultsToHeads: true, window: optionalWindow,
		partial: 1, tensors: fused.with(func(t *Tensors) { t.QKV = "self_attn.qkv_proj" }),
		ignored: "full_attn_mod interpolate_factor"},
	"PhiForCausalLM": {modelType: "phi", norm: layerNorm, keys: layerNormKeys, qkvBias: true, outBias: true,
		mlpBias: true, parallel: true, ungated: true, activation: "gelu_new", kvDefaultsToHeads: true, window: noWindow,
		partial: 0.5, tensors: sharedNorm.with(func(t *Tensors) {
			t.Norm, t.Out, t.Up, t.Down = "final_layernorm", "self_attn.dense", "mlp.fc1", "mlp.fc2"
			t.QNorm, t.KNorm = "self_attn.q_layernorm", "self_attn.k_layernorm"
		}), more: func(o *object, c *Config) {
			c.HeadBias = true
			if o.bool("qk_layernorm", false) {
				c.QKNorm = QKNorm{Over: QKNormHead, Layer: true, Bias: true}
			}
		}},

	"GPT2LMHeadModel": {modelType: "gpt2", norm: layerNorm, keys: gptKeys, qkvBias: true, outBias: true, mlpBias: true,
		ungated: true, tied: true, activation: "gelu_new", inner: 4, noKVKey: true, window: noWindow, noRope: true,
		tensors: Tensors{
			Base: "transformer.", Embed: "wte", Positions: "wpe", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.",
			AttnNorm: "ln_1", MLPNorm: "ln_2", QKV: "attn.c_attn", Out: "attn.c_proj", Up: "mlp.c_fc",
			Down: "mlp.c_proj", Transposed: true,
		}, more: func(o *object, c *Config) {
			if !o.bool("scale_attn_weights", true) {
				c.Scales.Attention = 1
			}
		}, ignored: "n_ctx attn_pdrop reorder_and_upcast_attn summary_first_dropout summary_proj_to_labels summary_use_proj"},
	"GPTNeoXForCausalLM": {modelType: "gpt_neox", norm: layerNorm, keys: map[string][]string{
		"rms_norm_eps": {"layer_norm_eps"}, "partial_rotary_factor": {"rotary_pct", "partial_rotary_factor"},
		"rope_theta": {"rotary_emb_base", "rope_theta"}},
		qkvBias: true, outBias: true, mlpBias: true, biasKey: true, ungated: true, activation: "gelu", noKVKey: true,
		window: noWindow, partial: 0.25, tensors: Tensors{
			Base: "gpt_neox.", Embed: "embed_in", Norm: "final_layer_norm", Head: "embed_out", Layer: "layers.%d.",
			AttnNorm: "input_layernorm", MLPNorm: "post_attention_layernorm", QKV: "attention.query_key_value",
			QKVByHead: true, Out: "attention.dense", Up: "mlp.dense_h_to_4h", Down: "mlp.dense_4h_to_h",
		}, more: func(o *object, c *Config) {
			c.Parallel = o.bool("use_parallel_residual", true)
		}, ignored: "classifier_dropout"},
	"GPTJForCausalLM": {modelType: "gptj", norm: layerNorm, keys: gptKeys, mlpBias: true, parallel: true, ungated: true,
		activation: "gelu_new", inner: 4, noKVKey: true, window: noWindow, interleaved: true, tensors: Tensors{
			Base: "transformer.", Embed: "wte", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.", AttnNorm: "ln_1",
			Q: "attn.q_proj", K: "attn.k_proj", V: "attn.v_proj", Out: "attn.out_proj", Up: "mlp.fc_in",
			Down: "mlp.fc_out",
		}, more: func(o *object, c *Config) {
			c.HeadBias = true
			if c.Rope.Dim = o.int("rotary_dim", 64, 2, c.HeadDim); c.Rope.Dim%2 != 0 {
				o.fail("rotary_dim", "%d: want an even number", c.Rope.Dim)
			}
		}, ignored: "n_ctx attn_pdrop rotary scale_attn_weights summary_first_dropout summary_proj_to_labels summary_use_proj"},
	"FalconForCausalLM": {modelType: "falcon", norm: layerNorm, keys: map[string][]string{
		"rms_norm_eps": {"layer_norm_epsilon"}, "intermediate_size": {"ffn_hidden_size"}, "hidden_act": {"activation"},
		"num_hidden_layers":   {"num_hidden_layers", "n_layer"},
		"num_attention_heads": {"num_attention_heads", "n_head"}},
		ungated: true, tied: true, activation: "gelu", inner: 4, positions: 2048, noKVKey: true, window: noWindow,
		tensors: bigScience, more: readFalcon, ignored: "ff_factor"},
	"BloomForCausalLM": {modelType: "bloom", norm: layerNorm, keys: map[string][]string{
		"rms_norm_eps": {"layer_norm_epsilon"}, "hidden_size": {"hidden_size", "n_embed"},
		"num_hidden_layers": {"n_layer", "num_hidden_layers"}, "num_attention_heads": {"n_head", "num_attention_heads"},
		"max_position_embeddings": {"seq_length"}},
		qkvBias: true, outBias: true, mlpBias: true, ungated: true, tied: true, activation: "gelu_new", inner: 4,
		positions: 2048, noKVKey: true, window: noWindow, noRope: true,
		tensors: bigScience.with(func(t *Tensors) { t.EmbedNorm = "word_embeddings_layernorm" }),
		more: func(o *object, c *Config) {
			c.ALiBi = true
			if o.bool("apply_residual_connection_post_layernorm", false) {
				o.fail("apply_residual_connection_post_layernorm", "true: only residuals from before the norm are supported")
			}
		},
		ignored: "pretraining_tp slow_but_exact attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion offset_alibi " +
			"skip_bias_add skip_bias_add_qkv n_inner"},
	"OPTForCausalLM": {modelType: "opt", norm: layerNorm, fixedEps: true, keys: map[string][]string{
		"intermediate_size": {"ffn_dim"}, "hidden_act": {"activation_function"}, "attention_bias": {"enable_bias"}},
		qkvBias: true, outBias: true, mlpBias: true, biasKey: true, ungated: true, tied: true, activation: "relu",
		noKVKey: true, window: noWindow, noRope: true, tensors: Tensors{
			Base: "model.decoder.", Embed: "embed_tokens", Positions: "embed_positions", Norm: "final_layer_norm",
			Head: "lm_head", Layer: "layers.%d.", AttnNorm: "self_attn_layer_norm", MLPNorm: "final_layer_norm",
			Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", Out: "self_attn.out_proj",
			Up: "fc1", Down: "fc2",
		}, more: readOPT, ignored: "dropout activation_dropout layerdrop init_std learned_embeddings"},
	"Starcoder2ForCausalLM": {modelType: "starcoder2", norm: layerNorm, keys: map[string][]string{
		"rms_norm_eps": {"norm_epsilon"}, "attention_bias": {"use_bias"}},
		qkvBias: true, biasKey: true, ungated: true, tied: true, activation: "gelu_pytorch_tanh",
		window:  optionalWindow,
		tensors: llama.with(func(t *Tensors) { t.Up, t.Down = "mlp.c_fc", "mlp.c_proj" }),
		more:    func(o *object, c *Config) { c.MLPBias = c.QKVBias },
		ignored: "residual_dropout embedding_dropout attention_softmax_in_fp32 scale_attention_softmax_in_fp32 " +
			"scale_attn_weights layer_norm_epsilon"},
	"StableLmForCausalLM": {modelType: "stablelm", norm: layerNorm, keys: map[string][]string{
		"rms_norm_eps": {"layer_norm_eps"}, "attention_bias": {"use_qkv_bias"}},
		biasKey: true, noOutBias: true, kvDefaultsToHeads: true, window: noWindow, partial: 0.25,
		tensors: llama.with(func(t *Tensors) {
			t.QNorm, t.KNorm = "self_attn.q_layernorm.norms.%d", "self_attn.k_layernorm.norms.%d"
		}), more: func(o *object, c *Config) {
			if c.Parallel = o.bool("use_parallel_residual", false); c.Parallel {
				c.Tensors.MLPNorm = ""
			}
			if o.bool("qk_layernorm", false) {
				c.QKNorm = QKNorm{Over: QKNormEachHead, Layer: true}
			}
		}},

	"OlmoForCausalLM": {modelType: "olmo", norm: Norm{Layer: true, Plain: true, Eps: 1e-5}, fixedEps: true,
		biasKey: true, kvDefaultsToHeads: true, window: noWindow, tensors: llama, more: func(o *object, c *Config) {
			c.ClipQKV = o.float("clip_qkv", 0, 1e-6, 1e18)
		}},
	"Olmo2ForCausalLM": {modelType: "olmo2", norm: Norm{Eps: 1e-5}, qkNorm: QKNorm{Over: QKNormAll}, biasKey: true,
		kvDefaultsToHeads: true, window: noWindow, tensors: postNorm},
	"Olmo3ForCausalLM": {modelType: "olmo3", norm: Norm{Eps: 1e-5}, theta: 500000, qkNorm: QKNorm{Over: QKNormAll},
		biasKey:           true,
		kvDefaultsToHeads: true, window: patternWindow(4), tensors: postNorm, more: func(o *object, c *Config) {
			if c.WindowRope == nil { // only layers that see everything stretch it
				c.WindowRope = &Rope{Type: RopeDefault, Theta: c.Rope.Theta, Attention: 1}
			}
		}},
	"SmolLM3ForCausalLM": {modelType: "smollm3", norm: rms, theta: 2e6, ignored: "max_window_layers pretraining_tp",
		biasKey: true, mlpBiasKey: true, tied: true,
		window: smolWindow, tensors: llama,
		more: func(o *object, c *Config) {
			c.NoRope = o.layersWithoutRope(c.Layers)
		}},
	"GraniteForCausalLM": {modelType: "granite", norm: rms, biasKey: true, mlpBiasKey: true, kvDefaultsToHeads: true,
		window: noWindow, tensors: llama, more: readGranite},
	"CohereForCausalLM": {modelType: "cohere", theta: 500000, norm: Norm{Layer: true, Eps: 1e-5},
		keys: layerNormKeys, biasKey: true,
		parallel: true, tied: true, kvDefaultsToHeads: true, window: noWindow, interleaved: true, tensors: sharedNorm,
		more: func(o *object, c *Config) {
			c.Scales.Logits = o.float("logit_scale", 0.0625, -1e6, 1e6)
			if o.bool("use_qk_norm", false) {
				c.QKNorm = QKNorm{Over: QKNormEachHead, Layer: true}
			}
		}, ignored: cohereIgnored},
	"Cohere2ForCausalLM": {modelType: "cohere2", norm: Norm{Layer: true, Eps: 1e-5}, keys: layerNormKeys, biasKey: true,
		parallel: true, tied: true, kvDefaultsToHeads: true, window: patternWindow(4), interleaved: true,
		tensors: sharedNorm, more: func(o *object, c *Config) {
			c.Scales.Logits = o.float("logit_scale", 0.0625, -1e6, 1e6)
			c.ropeInWindows()
		}, ignored: cohereIgnored},
	"GlmForCausalLM": {modelType: "glm", norm: Norm{Eps: 1.5625e-7}, qkvBias: true, biasKey: true, noOutBias: true,
		headDim: 128, window: noWindow, partial: 0.5, interleaved: true, tensors: fused},
	"Glm4ForCausalLM": {modelType: "glm4", norm: Norm{Eps: 1.5625e-7}, qkvBias: true, biasKey: true, noOutBias: true,
		headDim: 128, window: noWindow, partial: 0.5, interleaved: true, tensors: fused.with(func(t *Tensors) {
			t.AttnPost, t.MLPPost = "post_self_attn_layernorm", "post_mlp_layernorm"
		})},
	"Exaone4ForCausalLM": {modelType: "exaone4", norm: Norm{Eps: 1e-5}, qkNorm: QKNorm{Over: QKNormHead},
		kvDefaultsToHeads: true, window: patternWindow(4), tensors: postNorm, more: func(o *object, c *Config) {
			if _, windows := o.raw("sliding_window"); windows || !o.has("sliding_window") {
				c.ropeInWindows()
			}
		}},
	"NemotronForCausalLM": {modelType: "nemotron", norm: Norm{Layer: true, Bias: true, Offset: 1, Eps: 1e-5},
		keys: map[string][]string{"rms_norm_eps": {"norm_eps"},
			"partial_rotary_factor": {"partial_rotary_factor", "rope_percent"}},
		biasKey: true, mlpBiasKey: true, ungated: true,
		activation: "relu2", kvDefaultsToHeads: true, window: noWindow, partial: 0.5, tensors: llama},
	"SeedOssForCausalLM": {modelType: "seed_oss", norm: rms, qkvBias: true, biasKey: true, mlpBiasKey: true,
		kvDefaultsToHeads: true, headDim: 128, window: noWindow, tensors: llama, more: func(o *object, c *Config) {
			c.OutBias = o.bool("attention_out_bias", false)
		}, ignored: "residual_dropout"},
	"HunYuanDenseV1ForCausalLM": {modelType: "hunyuan_v1_dense", norm: Norm{Eps: 1e-5},
		qkNorm: QKNorm{Over: QKNormHead, AfterRotary: true}, ropeAlpha: true, biasKey: true, kvDefaultsToHeads: true,
		window: noWindow,
		tensors: llama.with(func(t *Tensors) {
			t.QNorm, t.KNorm = "self_attn.query_layernorm", "self_attn.key_layernorm"
		}), ignored: hunYuanIgnored},
	"Ernie4_5ForCausalLM": {modelType: "ernie4_5", norm: Norm{Eps: 1e-5}, theta: 500000,
		ignored: "compression_ratio", keys: map[string][]string{
			"attention_bias": {"use_bias"}}, biasKey: true, tied: true, kvDefaultsToHeads: true, headDim: 128,
		window: noWindow, interleaved: true, tensors: llama,
		more: func(o *object, c *Config) {
			c.MLPBias = c.QKVBias
		}},
	"ArceeForCausalLM": {modelType: "arcee", norm: Norm{Eps: 1e-5}, biasKey: true, mlpBiasKey: true, ungated: true,
		activation: "relu2", kvDefaultsToHeads: true, window: noWindow, tensors: llama},
	"ApertusForCausalLM": {modelType: "apertus", norm: Norm{Eps: 1e-5}, biasKey: true, ungated: true,
		activation: "xielu", qkNorm: QKNorm{Over: QKNormHead}, kvDefaultsToHeads: true, window: noWindow,
		ropeParameters: `{"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0, "low_freq_factor": 1.0,
			"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}`,
		tensors: llama.with(func(t *Tensors) {
			t.AttnNorm, t.MLPNorm, t.Act = "attention_layernorm", "feedforward_layernorm", "mlp.act_fn"
		}), ignored: "post_norm qk_norm"},
	"CwmForCausalLM": {modelType: "cwm", norm: Norm{Eps: 1e-5}, mlpBiasKey: true, headDim: 128, kvDefaultsToHeads: true,
		ropeParameters: `{"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "low_freq_factor": 1.0,
			"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}`, window: firstOfFour, tensors: llama},
	"HyperCLOVAXForCausalLM": {modelType: "hyperclovax", norm: rms, biasKey: true, mlpBiasKey: true,
		kvDefaultsToHeads: true, window: noWindow, tensors: llama, more: func(o *object, c *Config) {
			readGranite(o, c)
			if _, ok := o.raw("attention_multiplier"); !ok {
				c.Scales.Attention = 0 // by the width of a head
			}
			c.Scales.Logits = 1 / c.Scales.Logits // multiplied by, unlike Granite's
			if o.bool("use_post_norm", true) {
				c.Tensors.AttnPost, c.Tensors.MLPPost = "post_norm1", "post_norm2"
			}
		}},
	"Jais2ForCausalLM": {modelType: "jais2", norm: layerNorm, keys: layerNormKeys, qkvBias: true, mlpBias: true,
		biasKey: true, mlpBiasKey: true, ungated: true, activation: "relu2", kvDefaultsToHeads: true, window: noWindow,
		tensors: llama},
	"NanoChatForCausalLM": {modelType: "nanochat", norm: Norm{Plain: true, Eps: 1e-6}, biasKey: true, ungated: true,
		qkNorm: QKNorm{Over: QKNormHead, AfterRotary: true}, activation: "relu2", kvDefaultsToHeads: true,
		window: noWindow, tensors: llama.with(func(t *Tensors) {
			t.EmbedNorm, t.Up, t.Down = "norm", "mlp.fc1", "mlp.fc2"
		}), more: func(o *object, c *Config) {
			c.Rope.Backwards = true
			c.LogitCap = o.float("final_logit_softcapping", 15, 1e-3, 1e6)
		}},
	"VaultGemmaForCausalLM": {modelType: "vaultgemma", norm: gemmaNorm, biasKey: true, tied: true, headDim: 256,
		keys: map[string][]string{"hidden_act": {"hidden_activation"}}, activation: "gelu_pytorch_tanh",
		window:  patternWindow(2),
		tensors: llama.with(func(t *Tensors) { t.MLPNorm = "pre_feedforward_layernorm" }),
		more:    func(o *object, c *Config) { c.readGemma(o, 50, 30) }},
	"HeliumForCausalLM": {modelType: "helium", norm: Norm{Eps: 1e-8}, theta: 100000, biasKey: true, mlpBiasKey: true,
		noOutBias:         true,
		kvDefaultsToHeads: true, headDim: 128, window: noWindow, interleaved: true, tensors: llama},
}, mixtures, older)

// merged returns the entries of all maps.
func merged(all ...map[string]family) map[string]family {
	out := map[string]family{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// cohereIgnored lists keys of Cohere's checkpoints that transformers does not read.
const cohereIgnored = "order_of_interleaved_layers layer_switch rotary_pct use_embedding_sharing use_gated_activation " +
	"use_parallel_block use_parallel_embedding"

// readGranite reads Granite's multipliers.
func readGranite(o *object, c *Config) {
	const big = 1e6
	c.Scales.Embed = o.float("embedding_multiplier", 1, -big, big)
	c.Scales.Residual = o.float("residual_multiplier", 1, -big, big)
	c.Scales.Attention = o.float("attention_multiplier", 1, 1e-9, big)
	c.Scales.Logits = 1 / o.float("logits_scaling", 1, 1e-9, big)
}

// readGemma reads what Gemma 2 and 3 have; the caps are the families' defaults.
func (c *Config) readGemma(o *object, attentionCap, logitCap float64) {
	const big = 1e6
	limit := func(key string, def float64) float64 {
		if o.has(key) {
			def = 0 // null is none
		}
		return o.float(key, def, 1e-3, big)
	}
	c.Scales.Embed = math.Sqrt(float64(c.Hidden))
	c.Scales.Attention = 1 / math.Sqrt(o.float("query_pre_attn_scalar", 256, 1e-6, big))
	c.AttentionCap = limit("attn_logit_softcapping", attentionCap)
	c.LogitCap = limit("final_logit_softcapping", logitCap)
}

// ropeInWindows leaves the rotary embedding to layers with a window.
func (c *Config) ropeInWindows() {
	c.NoRope = make([]bool, c.Layers)
	for i := range c.NoRope {
		c.NoRope[i] = c.Windows[i] == 0
	}
}

// readFalcon reads the differences between Falcon's generations.
func readFalcon(o *object, c *Config) {
	if o.bool("alibi", false) {
		o.fail("alibi", "true: only Falcon with a rotary embedding is supported")
	}
	bias := o.bool("bias", false)
	c.QKVBias, c.OutBias, c.MLPBias = bias, bias, bias
	fresh, one := o.bool("new_decoder_architecture", false), o.bool("multi_query", true)
	heads := o.int("num_kv_heads", c.Heads, 1, maxHeads)
	switch {
	case fresh:
		c.KVHeads = heads
	case one:
		c.KVHeads = 1
	}
	if c.Heads%c.KVHeads != 0 {
		o.fail("num_kv_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	}
	c.Parallel = o.bool("parallel_attn", true) || fresh
	switch norms := o.int("num_ln_in_parallel_attn", 2, 1, 2); {
	case fresh && norms == 2:
		c.Tensors.AttnNorm, c.Tensors.MLPNorm = "ln_attn", "ln_mlp"
	case c.Parallel:
		c.Tensors.MLPNorm = ""
	}
}

// readOPT reads what OPT has beyond GPT-2.
func readOPT(o *object, c *Config) {
	c.Learned, c.MLPBias = 2, c.QKVBias
	if o.bool("_remove_final_layer_norm", false) {
		c.Tensors.Norm = ""
	}
	if !o.bool("do_layer_norm_before", true) {
		o.fail("do_layer_norm_before", "false: norms behind the residual are not supported")
	}
	if w := o.int("word_embed_proj_dim", c.Hidden, 1, maxWidth); w != c.Hidden {
		o.fail("word_embed_proj_dim", "%d: embeddings of another width than hidden_size %d are not supported", w, c.Hidden)
	}
	if !o.bool("layer_norm_elementwise_affine", true) {
		c.Norm.Plain, c.Norm.Bias = true, false
	}
}

// smolWindow is SmolLM3's, with use_sliding_window: in the layers that layer_types names, by default those without a
// rotary embedding.
func smolWindow(o *object, layers int) []int {
	if !o.bool("use_sliding_window", false) {
		o.raw("sliding_window")
		o.layerTypes(layers)
		return make([]int, layers)
	}
	without := o.layersWithoutRope(layers)
	if types := o.layerTypes(layers); types != nil || !o.has("sliding_window") {
		return patternWindow(maxLayers+1)(o, layers)
	}
	w := o.int("sliding_window", 0, 1, maxPositions)
	out := make([]int, layers)
	for i := range out {
		if without[i] {
			out[i] = w
		}
	}
	return out
}

// layersWithoutRope reads no_rope_layers, which has 1 for a layer with a rotary embedding; by default each n-th layer
// has none.
func (o *object) layersWithoutRope(layers int) []bool {
	n := o.int("no_rope_layer_interval", 4, 1, maxLayers)
	out := make([]bool, layers)
	for i := range out {
		out[i] = (i+1)%n == 0
	}
	v, ok := o.raw("no_rope_layers")
	if !ok {
		return out
	}
	var list []int
	if err := json.Unmarshal(v, &list); err != nil || len(list) != layers {
		o.fail("no_rope_layers", "want %d numbers, got %s", layers, shorten(v))
		return out
	}
	for i, n := range list {
		out[i] = n == 0
	}
	return out
}
