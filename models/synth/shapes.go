package synth

import (
	"fmt"
	"sort"
	"strings"
)

// shape is a public model's configuration.
type shape struct {
	architecture, modelType string
	hidden, intermediate    int
	layers                  int
	heads, kvHeads, headDim int
	vocab, maxPositions     int
	eps, theta              float64
	qkvBias                 bool
	untied                  bool // the head is a matrix of its own
	qkNorm                  bool // queries and keys are normed
	// experts are those of a layer's mixture, each of size expert, of which a token uses perToken; 0 for none.
	experts, perToken, expert int
	bos                       int
	eos                       []int
	// shard is how many bytes of tensors a file holds, at least one tensor; 0 for all in one file.
	shard int64
	// extra keys of config.json.
	extra map[string]any
}

var shapes = map[string]shape{
	"smollm2-135m": {
		architecture: "LlamaForCausalLM", modelType: "llama",
		hidden: 576, intermediate: 1536, layers: 30, heads: 9, kvHeads: 3, headDim: 64,
		vocab: 49152, maxPositions: 8192, eps: 1e-5, theta: 100000, bos: 1, eos: []int{2},
	},
	"qwen2.5-0.5b": {
		architecture: "Qwen2ForCausalLM", modelType: "qwen2",
		hidden: 896, intermediate: 4864, layers: 24, heads: 14, kvHeads: 2, headDim: 64,
		vocab: 151936, maxPositions: 32768, eps: 1e-6, theta: 1000000, qkvBias: true, bos: 151643,
		eos:   []int{151645, 151643},
		extra: map[string]any{"use_sliding_window": false, "sliding_window": 32768, "max_window_layers": 21},
	},
	"llama3.2-1b": {
		architecture: "LlamaForCausalLM", modelType: "llama",
		hidden: 2048, intermediate: 8192, layers: 16, heads: 32, kvHeads: 8, headDim: 64,
		vocab: 128256, maxPositions: 131072, eps: 1e-5, theta: 500000, bos: 128000, eos: []int{128001, 128008, 128009},
		extra: map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 32.0,
			"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
	},
	// Of use on GPUs: 16 GB on disk.
	"llama3.1-8b": {
		architecture: "LlamaForCausalLM", modelType: "llama",
		hidden: 4096, intermediate: 14336, layers: 32, heads: 32, kvHeads: 8, headDim: 128,
		vocab: 128256, maxPositions: 131072, eps: 1e-5, theta: 500000, bos: 128000, eos: []int{128001, 128008, 128009},
		untied: true,
		extra: map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8.0,
			"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
	},
	// A mixture of experts in files of 4 GB, 61 GB together: conversions must not need all of it at once.
	"qwen3-30b-a3b": {
		architecture: "Qwen3MoeForCausalLM", modelType: "qwen3_moe",
		hidden: 2048, intermediate: 6144, layers: 48, heads: 32, kvHeads: 4, headDim: 128,
		experts: 128, perToken: 8, expert: 768, shard: 4e9,
		vocab: 151936, maxPositions: 40960, eps: 1e-6, theta: 1000000, untied: true, qkNorm: true, bos: 151643,
		eos: []int{151645, 151643},
	},
}

// Shapes lists the names that Write knows.
func Shapes() []string {
	out := make([]string, 0, len(shapes))
	for name := range shapes {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

func lookup(name string) (shape, error) {
	s, ok := shapes[name]
	if !ok {
		return shape{}, fmt.Errorf("shape %q is unknown, want one of %s", name, strings.Join(Shapes(), ", "))
	}
	return s, nil
}

// config returns the content of config.json.
func (s shape) config() map[string]any {
	c := map[string]any{
		"architectures": []string{s.architecture}, "model_type": s.modelType,
		"hidden_size": s.hidden, "intermediate_size": s.intermediate, "num_hidden_layers": s.layers,
		"num_attention_heads": s.heads, "num_key_value_heads": s.kvHeads, "head_dim": s.headDim,
		"vocab_size": s.vocab, "max_position_embeddings": s.maxPositions,
		"rms_norm_eps": s.eps, "rope_theta": s.theta, "hidden_act": "silu",
		"tie_word_embeddings": !s.untied, "torch_dtype": "bfloat16",
		"bos_token_id": s.bos, "eos_token_id": s.eos[0],
	}
	if s.experts > 0 {
		c["num_experts"], c["num_experts_per_tok"], c["moe_intermediate_size"] = s.experts, s.perToken, s.expert
		c["norm_topk_prob"], c["decoder_sparse_step"], c["mlp_only_layers"] = true, 1, []int{}
	}
	for k, v := range s.extra {
		c[k] = v
	}
	return c
}
