package hf

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestPublishedConfigs reads the config.json of published models, whose keys are those of the libraries of their time.
func TestPublishedConfigs(t *testing.T) {
	sliding := func(layers, window int, full func(i int) bool) []int {
		out := make([]int, layers)
		for i := range out {
			if !full(i) {
				out[i] = window
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		json string
		is   func(c Config) bool
	}{
		"openai-community/gpt2": {`{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
			"attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
			"layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
			"n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
			"summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
			"task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257}`,
			func(c Config) bool {
				return c.Intermediate == 3072 && c.Tied && c.Tensors.Transposed && !c.Rotates(0) &&
					c.MaxPositions == 1024
			}},
		"EleutherAI/pythia-70m": {`{"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0,
			"hidden_act": "gelu", "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 2048,
			"layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 8,
			"num_hidden_layers": 6, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
			"torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": true, "use_parallel_residual": true,
			"vocab_size": 50304}`,
			func(c Config) bool {
				return c.Rope.Dim == 16 && c.Parallel && c.Activation == GELU && c.QKVBias && c.OutBias
			}},
		"bigscience/bloom-560m": {`{"apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
			"attention_softmax_in_fp32": true, "architectures": ["BloomForCausalLM"], "bias_dropout_fusion": true,
			"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "unk_token_id": 0, "hidden_dropout": 0.0,
			"initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true, "model_type": "bloom",
			"n_embed": 1024, "n_inner": null, "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100,
			"pretraining_tp": 1, "skip_bias_add": true, "skip_bias_add_qkv": false, "seq_length": 2048,
			"transformers_version": "4.20.0", "use_cache": true, "vocab_size": 250880}`,
			func(c Config) bool {
				return c.ALiBi && c.Heads == 16 && c.Intermediate == 4096 && c.MaxPositions == 2048 && c.Tied
			}},
		"facebook/opt-125m": {`{"_name_or_path": "facebook/opt-125m", "activation_dropout": 0.0,
			"activation_function": "relu", "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0,
			"bos_token_id": 2, "do_layer_norm_before": true, "dropout": 0.1, "eos_token_id": 2, "ffn_dim": 3072,
			"hidden_size": 768, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048, "model_type": "opt",
			"num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1, "prefix": "</s>",
			"torch_dtype": "float16", "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 768}`,
			func(c Config) bool { return c.Learned == 2 && c.MLPBias && c.Activation == ReLU && !c.Gated }},
		"tiiuae/falcon-7b": {`{"alibi": false, "apply_residual_connection_post_layernorm": false,
			"architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": false, "bos_token_id": 11,
			"eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544, "initializer_range": 0.02,
			"layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": true, "new_decoder_architecture": false,
			"num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": true, "torch_dtype": "bfloat16",
			"use_cache": true, "vocab_size": 65024}`,
			func(c Config) bool {
				return c.KVHeads == 1 && c.Parallel && c.Tensors.MLPNorm == "" && c.HeadDim == 64
			}},
		"microsoft/phi-2": {`{"architectures": ["PhiForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 50256,
			"embd_pdrop": 0.0, "eos_token_id": 50256, "hidden_act": "gelu_new", "hidden_size": 2560,
			"initializer_range": 0.02, "intermediate_size": 10240, "layer_norm_eps": 1e-05,
			"max_position_embeddings": 2048, "model_type": "phi", "num_attention_heads": 32, "num_hidden_layers": 32,
			"num_key_value_heads": 32, "partial_rotary_factor": 0.4, "qk_layernorm": false, "resid_pdrop": 0.1,
			"rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "use_cache": true,
			"vocab_size": 51200}`,
			func(c Config) bool { return c.Rope.Dim == 32 && c.Parallel && c.HeadBias }},
		"google/gemma-2-2b-it": {`{"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
			"eos_token_id": [1, 107], "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
			"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02,
			"intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
			"num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256,
			"rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "bfloat16",
			"use_cache": true, "vocab_size": 256000}`,
			func(c Config) bool {
				return c.AttentionCap == 50 && c.LogitCap == 30 && c.Scales.Embed == 48 &&
					c.Scales.Attention == 1.0/16 &&
					c.Tied &&
					slices.Equal(c.Windows, sliding(26, 4096, func(i int) bool { return i%2 == 1 }))
			}},
		"google/gemma-3-1b-it": {`{"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
			"eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256,
			"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
			"intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text",
			"num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
			"query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
			"rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
			"transformers_version": "4.50.0.dev0", "use_cache": true, "vocab_size": 262144}`,
			func(c Config) bool {
				return c.AttentionCap == 0 && c.RopeOf(0).Theta == 10000 && c.RopeOf(5).Theta == 1000000 &&
					slices.Equal(c.Windows, sliding(26, 512, func(i int) bool { return i%6 == 5 }))
			}},
		"deepseek-ai/DeepSeek-V2-Lite": {`{"architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.0, "aux_loss_alpha": 0.001, "auto_map": {"AutoConfig":
			"configuration_deepseek.DeepseekV2Config"}, "bos_token_id": 100000, "eos_token_id": 100001,
			"first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
			"intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
			"model_type": "deepseek_v2", "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1,
			"n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16,
			"num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16, "pretraining_tp": 1,
			"q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
			"rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
			"original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
			"routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true, "tie_word_embeddings": false,
			"topk_group": 1, "topk_method": "greedy", "torch_dtype": "bfloat16", "use_cache": true,
			"v_head_dim": 128, "vocab_size": 102400}`,
			func(c Config) bool {
				scale := 0.1*0.707*math.Log(40) + 1
				return c.HeadDim == 576 && c.KVHeads == 1 && c.CacheNumbers() == 576 && c.OutWidth() == 2048 &&
					c.Latent.QRank == 0 && c.Experts.Shared == 2816 && !c.Experts.Sigmoid && !c.HasExperts(0) &&
					math.Abs(c.Scales.Attention-scale*scale/math.Sqrt(192)) < 1e-12 && c.Rope.Attention == 1
			}},
		"deepseek-ai/DeepSeek-V3": {`{"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3,
			"hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
			"kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
			"moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
			"n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
			"num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
			"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "quantization_config": {"activation_scheme": "dynamic",
			"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}, "rms_norm_eps": 1e-06,
			"rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
			"original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
			"routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
			"topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": true, "v_head_dim": 128,
			"vocab_size": 129280}`,
			func(c Config) bool {
				return c.Experts.Groups == 8 && c.Experts.GroupsPerToken == 4 && c.Experts.GroupBest == 2 &&
					c.Latent == Latent{512, 1536, 128, 64, 128, 1e-6} && c.Experts.Scale == 2.5 &&
					slices.Equal(c.Unused, []string{"model.layers.61."}) && c.Rope.Interleaved
			}},
		"zai-org/GLM-4.5-Air": {`{"architectures": ["Glm4MoeForCausalLM"], "attention_bias": true,
			"attention_dropout": 0.0, "pad_token_id": 151329, "eos_token_id": [151329, 151336, 151338], "head_dim": 128,
			"hidden_act": "silu", "hidden_size": 4096, "partial_rotary_factor": 0.5, "initializer_range": 0.02,
			"intermediate_size": 10944, "max_position_embeddings": 131072, "model_type": "glm4_moe",
			"moe_intermediate_size": 1408, "norm_topk_prob": true, "num_attention_heads": 96, "n_group": 1,
			"topk_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "routed_scaling_factor": 1.0,
			"num_experts_per_tok": 8, "first_k_dense_replace": 1, "num_hidden_layers": 46, "num_key_value_heads": 8,
			"num_nextn_predict_layers": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
			"tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": false,
			"vocab_size": 151552}`,
			func(c Config) bool {
				return c.Experts.Shared == 1408 && !c.HasExperts(0) && c.HasExperts(1) && c.Experts.Groups == 0 &&
					slices.Equal(c.Unused, []string{"model.layers.46."}) && c.Rope.Dim == 64 && !c.OutBias
			}},
		"MiniMaxAI/MiniMax-M2": {`{"architectures": ["MiniMaxM2ForCausalLM"], "attention_dropout": 0.0,
			"attn_type_list": [1, 1], "bos_token_id": null, "eos_token_id": null, "head_dim": 128, "hidden_act": "silu",
			"hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 1536,
			"max_position_embeddings": 196608, "model_type": "minimax_m2", "mtp_transformer_layers": 1,
			"num_attention_heads": 48, "num_experts_per_tok": 8, "num_hidden_layers": 2, "num_key_value_heads": 8,
			"num_local_experts": 256, "num_mtp_modules": 3, "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06,
			"rope_theta": 5000000, "rotary_dim": 64, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
			"scoring_func": "sigmoid", "shared_intermediate_size": 0, "sliding_window": null,
			"tie_word_embeddings": false, "use_cache": true, "use_mtp": true, "use_qk_norm": true,
			"use_routing_bias": true, "vocab_size": 200064}`,
			func(c Config) bool { return c.Rope.Dim == 64 && c.Experts.Corrected && c.QKNorm.Over == QKNormAll }},
		"tencent/Hunyuan-A13B-Instruct": {`{"architectures": ["HunYuanMoEV1ForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.1, "attention_head_dim": 128, "bos_token_id": 1, "cla_share_factor": 2,
			"eos_token_id": 127960, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
			"intermediate_size": 3072, "max_position_embeddings": 32768, "mlp_bias": false, "model_type": "hunyuan",
			"moe_drop_tokens": false, "moe_intermediate_size": [3072, 3072], "moe_layer_num_skipped": 0,
			"moe_random_routing_dropped_token": false, "moe_topk": [8, 8], "norm_topk_prob": true,
			"norm_type": "rms", "num_attention_heads": 32, "num_experts": 64, "num_hidden_layers": 2,
			"num_key_value_heads": 8, "num_shared_expert": [1, 1], "org_vocab_size": 128167, "pad_id": 127961,
			"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"alpha": 1000.0, "beta_fast": 32,
			"beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"},
			"rope_theta": 10000.0, "routed_scaling_factor": 1.0, "tie_word_embeddings": true, "use_cache": true,
			"use_cla": false, "use_mixed_mlp_moe": true, "use_qk_norm": true, "use_rotary_pos_emb": true,
			"vocab_size": 128167}`,
			func(c Config) bool { return c.Experts.PerToken == 8 && c.Experts.Shared == 3072 && c.HeadDim == 128 }},
		"Qwen/Qwen3-30B-A3B": {`{"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false,
			"attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645,
			"head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
			"intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
			"model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
			"num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
			"output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
			"router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
			"use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
			func(c Config) bool {
				return c.Experts.N == 128 && c.Experts.PerToken == 8 && c.Experts.Intermediate == 768 &&
					c.Experts.Normalise &&
					c.HasExperts(0) && c.QKNorm.Over == QKNormHead
			}},
		"openai/gpt-oss-20b": {`{"architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
			"eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
			"initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": 2880,
			"layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 131072,
			"model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 2,
			"num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false, "pad_token_id": 199999,
			"quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"],
			"quant_method": "mxfp4"}, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0,
			"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
			"rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
			"tie_word_embeddings": false, "transformers_version": "4.55.0.dev0", "use_cache": true, "vocab_size": 201088}`,
			func(c Config) bool {
				return c.Experts.Packed && c.Experts.Clamp == Clamp{1.702, 7} && slices.Equal(c.Windows, []int{128,
					0}) &&
					c.OutBias && c.Rope.Type == RopeYarn && !c.Rope.Truncate
			}},
	} {
		got, err := ParseConfig([]byte(c.json))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !c.is(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDefaultBases: the base of the rotary embedding of a config.json that names none is the class's own, as
// transformers 5.23 has it.
func TestDefaultBases(t *testing.T) {
	want := map[string]float64{"Gemma3ForCausalLM": 1e6, "Olmo3ForCausalLM": 500000, "SmolLM3ForCausalLM": 2e6,
		"CohereForCausalLM": 500000, "Ernie4_5ForCausalLM": 500000, "HeliumForCausalLM": 100000,
		"FlexOlmoForCausalLM": 500000, "MiniMaxM2ForCausalLM": 5e6, "CwmForCausalLM": 1e6, "SolarOpenForCausalLM": 1e6,
		"ApertusForCausalLM": 12e6, "Ernie4_5_MoeForCausalLM": 500000,
		"MixtralForCausalLM": 1e6, "GptOssForCausalLM": 150000, "Ministral3ForCausalLM": 1e6}
	for class, fam := range families {
		if fam.noRope {
			continue
		}
		names := func(key string) string {
			if own := fam.keys[key]; own != nil {
				return own[0]
			}
			return key
		}
		text := `{"architectures": ["` + class + `"]`
		for key, value := range map[string]string{"vocab_size": "96", "hidden_size": "64", "intermediate_size": "96",
			"num_hidden_layers": "2", "num_attention_heads": "4", "num_key_value_heads": "2",
			"max_position_embeddings": "128", "num_local_experts": "16"} {
			if key == "num_key_value_heads" && (fam.noKVKey || fam.latent) ||
				key == "num_local_experts" && fam.tensors.Router == "" {
				continue
			}
			text += `, "` + names(key) + `": ` + value
		}
		c, err := ParseConfig([]byte(text + "}"))
		if err != nil {
			t.Errorf("%s: %v", class, err)
			continue
		}
		base := want[class]
		if base == 0 {
			base = 10000
		}
		if c.Rope.Theta != base {
			t.Errorf("%s: base %g, want %g", class, c.Rope.Theta, base)
		}
	}
	gemma, err := ParseConfig([]byte(`{"architectures": ["Gemma3ForCausalLM"], "vocab_size": 96, "hidden_size": 64,
		"intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
		"max_position_embeddings": 128}`))
	if err != nil || gemma.RopeOf(0).Theta != 10000 || gemma.RopeOf(5).Theta != 1e6 {
		t.Errorf("Gemma 3: %+v, %v", gemma, err)
	}
}

// TestRareForms: forms of configurations that transformers reads in a way of their own.
func TestRareForms(t *testing.T) {
	const sizes = `"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
		"num_attention_heads": 4, "max_position_embeddings": 640`
	long := `"rope_scaling": {"type": "longrope", "factor": 2.0, "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
		"long_factor": [2, 2, 2, 2, 2, 2, 2, 2], "original_max_position_embeddings": 100}`
	for name, c := range map[string]struct {
		json, refused string
		is            func(c Config) bool
	}{
		"names of two libraries": {`"architectures": ["GPTNeoXForCausalLM"], "rotary_pct": 0.25, "partial_rotary_factor": 0.25,
			"rotary_emb_base": 20000, "rope_theta": 20000`, "",
			func(c Config) bool { return c.Rope.Dim == 4 && c.Rope.Theta == 20000 }},
		"saved without its head": {`"architectures": ["LlamaModel"], "model_type": "llama"`, "",
			func(c Config) bool { return c.Architecture == "LlamaForCausalLM" }},
		"windows where nothing turns": {`"architectures": ["SmolLM3ForCausalLM"], "num_key_value_heads": 2,
			"use_sliding_window": true, "sliding_window": 8`, "",
			func(c Config) bool { return slices.Equal(c.Windows, []int{0, 0, 0, 8}) }},
		"factor of longrope": {`"architectures": ["Phi3ForCausalLM"], ` + long, "",
			func(c Config) bool {
				return c.Rope.Attention > 1.07 && c.Rope.Attention < 1.08 && c.OriginalPositions == 100
			}},
		"original context outside": {`"architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 200, ` + long,
			"", func(c Config) bool { return c.OriginalPositions == 200 }},
		"no last norm": {`"architectures": ["OPTForCausalLM"], "ffn_dim": 96, "_remove_final_layer_norm": true`, "",
			func(c Config) bool { return c.Tensors.Norm == "" }},
		"default window": {`"architectures": ["Exaone4ForCausalLM"]`, "",
			func(c Config) bool { return c.Windows[0] == 4096 && c.Rotates(0) && !c.Rotates(3) }},
		"no window, pattern 0": {`"architectures": ["Exaone4ForCausalLM"], "sliding_window": null,
			"sliding_window_pattern": 0`, "", func(c Config) bool { return c.Windows[0] == 0 && c.Rotates(3) }},
		"head_dim null": {`"architectures": ["Ernie4_5ForCausalLM"], "head_dim": null`, "",
			func(c Config) bool { return c.HeadDim == 16 }},
		"no share": {`"architectures": ["PhiForCausalLM"], "partial_rotary_factor": 0`, "partial_rotary_factor", nil},
		"alpha of another class": {`"architectures": ["LlamaForCausalLM"], "rope_scaling": {"rope_type": "dynamic",
			"factor": 1.0, "alpha": 50.0}`, "rope_scaling.alpha", nil},
	} {
		text := sizes
		if name == "no last norm" {
			text = strings.Replace(text, `"intermediate_size": 96, `, "", 1)
		}
		got, err := ParseConfig([]byte("{" + text + ", " + c.json + "}"))
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !c.is(got):
			t.Errorf("%s: %+v", name, got)
		}
	}
}
