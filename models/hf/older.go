package hf

import (
	"encoding/json"
	"math"
)

// older describes classes that few new models have, and those that came after them in the same form.
var older = map[string]family{
	"GPTBigCodeForCausalLM": {modelType: "gpt_bigcode", norm: layerNorm, keys: gptKeys, qkvBias: true, outBias: true,
		mlpBias: true, ungated: true, tied: true, activation: "gelu_pytorch_tanh", inner: 4, noKVKey: true,
		window: noWindow, noRope: true, tensors: Tensors{
			Base: "transformer.", Embed: "wte", Positions: "wpe", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.",
			AttnNorm: "ln_1", MLPNorm: "ln_2", QKV: "attn.c_attn", Out: "attn.c_proj", Up: "mlp.c_fc",
			Down: "mlp.c_proj",
		}, more: func(o *object, c *Config) {
			c.Tensors.QKVByHead = !o.bool("multi_query", true)
			if !c.Tensors.QKVByHead {
				c.KVHeads = 1
			}
			if !o.bool("scale_attn_weights", true) {
				c.Scales.Attention = 1
			}
		}, ignored: "num_key_value_heads attn_pdrop attention_softmax_in_fp32 scale_attention_softmax_in_fp32 " +
			"summary_first_dropout summary_proj_to_labels summary_use_proj inference_runner max_batch_size " +
			"pre_allocate_kv_cache validate_runner_input"},
	"GPTNeoForCausalLM": {modelType: "gpt_neo", norm: layerNorm, keys: map[string][]string{
		"num_hidden_layers": {"num_layers"}, "num_attention_heads": {"num_heads"},
		"rms_norm_eps": {"layer_norm_epsilon"}, "hidden_act": {"activation_function"}},
		outBias: true, mlpBias: true, ungated: true, tied: true, activation: "gelu_new", inner: 4, positions: 2048,
		noKVKey: true, window: neoWindow, noRope: true, tensors: Tensors{
			Base: "transformer.", Embed: "wte", Positions: "wpe", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.",
			AttnNorm: "ln_1", MLPNorm: "ln_2", Q: "attn.attention.q_proj", K: "attn.attention.k_proj",
			V: "attn.attention.v_proj", Out: "attn.attention.out_proj", Up: "mlp.c_fc", Down: "mlp.c_proj",
		}, more: func(_ *object, c *Config) { c.Scales.Attention = 1 },
		ignored: "resid_dropout embed_dropout classifier_dropout summary_first_dropout summary_proj_to_labels " +
			"summary_use_proj"},
	"CodeGenForCausalLM": {modelType: "codegen", norm: layerNorm, keys: gptKeys, mlpBias: true, parallel: true,
		ungated: true, activation: "gelu_new", inner: 4, noKVKey: true, window: noWindow, interleaved: true,
		tensors: Tensors{
			Base: "transformer.", Embed: "wte", Norm: "ln_f", Head: "lm_head", Layer: "h.%d.", AttnNorm: "ln_1",
			QKV: "attn.qkv_proj", QVKGroups: 4, Out: "attn.out_proj", Up: "mlp.fc_in", Down: "mlp.fc_out",
		}, more: func(o *object, c *Config) {
			c.HeadBias = true
			if c.Rope.Dim = o.int("rotary_dim", 64, 2, c.HeadDim); c.Rope.Dim%2 != 0 {
				o.fail("rotary_dim", "%d: want an even number", c.Rope.Dim)
			}
			if c.Heads%c.Tensors.QVKGroups != 0 {
				o.fail("n_head", "%d: want a multiple of %d", c.Heads, c.Tensors.QVKGroups)
			}
		}, ignored: "n_ctx attn_pdrop gradient_checkpointing scale_attn_weights summary_first_dropout " +
			"summary_proj_to_labels summary_use_proj"},
	"MptForCausalLM": {modelType: "mpt", norm: Norm{Layer: true, Eps: 1e-5}, keys: map[string][]string{
		"hidden_size": {"d_model"}, "num_hidden_layers": {"n_layers"}, "num_attention_heads": {"n_heads"},
		"max_position_embeddings": {"max_seq_len"}, "rms_norm_eps": {"layer_norm_epsilon"}},
		ungated: true, tied: true, activation: "gelu", inner: 4, positions: 2048, noKVKey: true, window: noWindow,
		noRope: true, tensors: Tensors{
			Base: "transformer.", Embed: "wte", Norm: "norm_f", Head: "lm_head", Layer: "blocks.%d.",
			AttnNorm: "norm_1", MLPNorm: "norm_2", QKV: "attn.Wqkv", Out: "attn.out_proj", Up: "ffn.up_proj",
			Down: "ffn.down_proj",
		}, more: readMPT, ignored: "emb_pdrop learned_pos_emb embedding_fraction verbose"},
	"PersimmonForCausalLM": {modelType: "persimmon", norm: layerNorm, keys: layerNormKeys, qkvBias: true, outBias: true,
		mlpBias: true, ungated: true, activation: "relu2", noKVKey: true, window: noWindow, partial: 0.5,
		tensors: llama.with(func(t *Tensors) {
			t.Norm, t.QKV, t.QKVByHead = "final_layernorm", "self_attn.query_key_value", true
			t.Out, t.Up, t.Down = "self_attn.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"
			t.QNorm, t.KNorm = "self_attn.q_layernorm", "self_attn.k_layernorm"
		}), more: func(o *object, c *Config) {
			if o.bool("qk_layernorm", true) {
				c.QKNorm = QKNorm{Over: QKNormHead, Layer: true, Bias: true}
			}
		}},
	"BioGptForCausalLM": {modelType: "biogpt", norm: layerNorm, keys: layerNormKeys, qkvBias: true, outBias: true,
		mlpBias: true, ungated: true, tied: true, activation: "gelu", noKVKey: true, window: noWindow, noRope: true,
		tensors: Tensors{
			Base: "biogpt.", Embed: "embed_tokens", Positions: "embed_positions", Norm: "layer_norm",
			Head: "output_projection", Layer: "layers.%d.", AttnNorm: "self_attn_layer_norm",
			MLPNorm: "final_layer_norm", Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj",
			Out: "self_attn.out_proj", Up: "fc1", Down: "fc2",
		}, more: func(o *object, c *Config) {
			c.Learned = 2
			if o.bool("scale_embedding", true) {
				c.Scales.Embed = math.Sqrt(float64(c.Hidden))
			}
		}, ignored: "layerdrop activation_dropout hidden_dropout_prob attention_probs_dropout_prob"},
}

// neoWindow is GPT-Neo's: layers see everything or the last window_size tokens, as attention_layers says, or
// attention_types, which has lists to repeat and how often.
func neoWindow(o *object, layers int) []int {
	kinds := o.strings("attention_layers")
	if v, ok := o.raw("attention_types"); ok && kinds == nil {
		var list [][2]json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			o.fail("attention_types", "want lists of kinds and how often they repeat, got %s", shorten(v))
			return make([]int, layers)
		}
		for _, entry := range list {
			var names []string
			var n int
			if json.Unmarshal(entry[0], &names) != nil || json.Unmarshal(entry[1], &n) != nil || n < 0 || n > layers {
				o.fail("attention_types", "want lists of kinds and how often they repeat, got %s", shorten(v))
				return make([]int, layers)
			}
			for range n {
				kinds = append(kinds, names[:min(len(names), layers)]...)
			}
		}
	}
	w, out := o.int("window_size", 256, 1, maxPositions), make([]int, layers)
	if len(kinds) != layers {
		o.fail("attention_layers", "there are %d kinds for %d layers", len(kinds), layers)
		return out
	}
	for i, kind := range kinds {
		switch kind {
		case "global":
		case "local":
			out[i] = w
		default:
			o.fail("attention_layers", "layer %d is %q, want global or local", i, kind)
		}
	}
	return out
}

// readMPT reads MPT's settings of attention.
func readMPT(o *object, c *Config) {
	c.ALiBi = true
	for key, only := range map[string]bool{"no_bias": true, "alibi": true, "prefix_lm": false, "qk_ln": false} {
		in := o
		if key != "no_bias" {
			if in = o.object("attn_config"); in == nil {
				continue
			}
		}
		if in.bool(key, only) != only {
			o.fail(key, "%t is not supported", !only)
		}
	}
	if n := o.int("expansion_ratio", 4, 1, 64); n != 4 {
		o.fail("expansion_ratio", "%d: want 4, which is what transformers computes with", n)
	}
	if a := o.object("attn_config"); a != nil {
		if kind := a.string("attn_type", "multihead_attention"); kind != "multihead_attention" {
			a.fail("attn_type", "%q is not supported", kind)
		}
		c.ClipQKV = a.float("clip_qkv", 0, 0, 1e18)
		c.Scales.Attention = a.float("softmax_scale", 0, 0, 1e6)
		if o.err == nil {
			o.err = a.err
		}
	}
}
