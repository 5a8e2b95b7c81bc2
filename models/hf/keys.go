package hf

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// refused maps keys that change the computation to their neutral values and to the reason that
// the error gives.
var refused = map[string]struct {
	neutral []string
	reason  string
}{
	"quantization_config": {nil, "quantised models of this kind cannot be read, use the original weights"},
	"quantization": {nil,
		"checkpoints that are already quantised cannot be read, use the original weights"},
	"compression_config":       {nil, "compressed checkpoints cannot be read, use the original weights"},
	"pretraining_tp":           {[]string{"1", "0"}, "weights split for tensor parallelism are not supported"},
	"attn_logit_softcapping":   {nil, "soft capping of attention scores is not supported"},
	"final_logit_softcapping":  {nil, "soft capping of logits is not supported"},
	"attn_logit_softcap":       {nil, "soft capping of attention scores is not supported"},
	"query_pre_attn_scalar":    {nil, "another scale of the attention scores is not supported"},
	"attention_multiplier":     {nil, "another scale of the attention scores is not supported"},
	"partial_rotary_factor":    {[]string{"1", "1.0"}, "rotating a part of each head is not supported"},
	"rotary_pct":               {[]string{"1", "1.0"}, "rotating a part of each head is not supported"},
	"rope_interleaved":         {[]string{"false"}, "interleaved rotary embedding is not supported"},
	"no_rope_layers":           {[]string{"[]"}, "layers without rotary embedding are not supported"},
	"no_rope_layer_interval":   {nil, "layers without rotary embedding are not supported"},
	"clip_qkv":                 {nil, "clipping of queries, keys and values is not supported"},
	"residual_multiplier":      {[]string{"1", "1.0"}, "scaled residuals are not supported"},
	"embedding_multiplier":     {[]string{"1", "1.0"}, "scaled embeddings are not supported"},
	"logits_scaling":           {[]string{"1", "1.0"}, "scaled logits are not supported"},
	"logit_scale":              {[]string{"1", "1.0"}, "scaled logits are not supported"},
	"num_local_experts":        {[]string{"0", "1"}, "mixtures of experts are not supported"},
	"num_experts":              {[]string{"0", "1"}, "mixtures of experts are not supported"},
	"num_nextn_predict_layers": {[]string{"0"}, "multi-token prediction is not supported"},
	"is_encoder_decoder":       {[]string{"false"}, "encoder-decoder models are not supported"},
	"add_cross_attention":      {[]string{"false"}, "cross attention is not supported"},
	"cross_attention_hidden_size": {nil,
		"cross attention is not supported"},
	"pruned_heads":  {[]string{"{}"}, "pruned heads are not supported"},
	"vision_config": {nil, "multimodal models are not supported"},
	"text_config":   {nil, "multimodal models are not supported"},
	"chunk_size_feed_forward": {[]string{"0"},
		"a chunked feed-forward layer is not supported"},
	"attention_chunk_size": {nil, "chunked attention is not supported"},
}

// ignored lists keys without effect on the logits: metadata, training settings, generation
// defaults, and settings of other tools.
var ignored = setOf(`
	architectures model_type transformers_version torch_dtype dtype use_cache
	initializer_range attention_dropout hidden_dropout resid_pdrop embd_pdrop
	pad_token_id sep_token_id decoder_start_token_id unk_token_id
	auto_map is_llama_config transformers.js_config onnx_config unsloth_fixed unsloth_version
	attn_implementation use_flash_attn use_flash_attn_2 use_flash_attention_2
	max_sequence_length model_max_length seq_length original_max_position_embeddings
	output_attentions output_hidden_states output_scores return_dict return_dict_in_generate torchscript
	use_bfloat16 tf_legacy_loss problem_type id2label label2id num_labels finetuning_task task_specific_params
	tokenizer_class prefix is_decoder gradient_checkpointing
	do_sample temperature top_k top_p typical_p num_beams num_beam_groups diversity_penalty early_stopping
	length_penalty repetition_penalty encoder_no_repeat_ngram_size no_repeat_ngram_size max_length min_length
	num_return_sequences bad_words_ids begin_suppress_tokens suppress_tokens exponential_decay_length_penalty
	forced_bos_token_id forced_eos_token_id remove_invalid_values tie_encoder_decoder
`)

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// checkUnread checks the keys that were not read; see the package comment.
func (o *object) checkUnread(architecture string) {
	for _, k := range slices.Sorted(maps.Keys(o.values)) {
		v := o.values[k]
		if o.read[k] || ignored[k] || strings.HasPrefix(k, "_") || inert(v) {
			continue
		}
		r, known := refused[k]
		switch {
		case !known:
			o.fail(k, "%s is unknown for %s and may change what the model computes", shorten(v), architecture)
		case !slices.Contains(r.neutral, string(v)):
			o.fail(k, "%s: %s", shorten(v), r.reason)
		}
	}
}

// inert reports whether a value cannot carry a numeric setting.
func inert(v json.RawMessage) bool {
	switch s := string(v); s {
	case "null", "false", "[]", "{}":
		return true
	default:
		return strings.HasPrefix(s, `"`)
	}
}
