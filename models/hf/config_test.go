package hf

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type fields map[string]any

// base returns a small valid configuration of an architecture.
func base(architecture string) fields {
	return fields{
		"architectures": []string{architecture}, "model_type": families[architecture].modelType,
		"vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
		"rms_norm_eps": 1e-5, "hidden_act": "silu", "torch_dtype": "bfloat16", "transformers_version": "4.50.0",
		"attention_dropout": 0.1, "initializer_range": 0.02, "use_cache": true, "bos_token_id": 1, "eos_token_id": 2,
	}
}

// with returns a copy with some keys set; a nil function value removes a key.
func (f fields) with(changes fields) fields {
	out := maps.Clone(f)
	for k, v := range changes {
		if v == absent {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// absent marks a key to be removed.
const absent = "\x00absent"

func (f fields) parse(t *testing.T) (Config, error) {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return ParseConfig(data)
}

func TestConfigsOfAllFamilies(t *testing.T) {
	plain := Config{Architecture: "LlamaForCausalLM", Vocab: 100, Hidden: 64, Intermediate: 96, Layers: 3, Heads: 4,
		KVHeads: 2,
		HeadDim: 16, MaxPositions: 128, Norm: Norm{Eps: 1e-5}, Windows: []int{0, 0, 0}, BOS: []uint32{1},
		EOS: []uint32{2}, Gated: true, Activation: SiLU, Scales: Scales{Embed: 1, Residual: 1, Logits: 1},
		Tensors: llama,
		Rope:    Rope{Type: RopeDefault, Theta: 10000, Attention: 1}}
	cases := []struct {
		name, architecture string
		set                fields
		want               func(c *Config)
	}{
		{"llama", "LlamaForCausalLM", nil, func(c *Config) {}},
		{"old llama without kv heads", "LlamaForCausalLM", fields{"num_key_value_heads": absent}, func(c *Config) {
			c.KVHeads = 4
		}},
		{"biases", "LlamaForCausalLM", fields{"attention_bias": true, "mlp_bias": true}, func(c *Config) {
			c.QKVBias, c.OutBias, c.MLPBias = true, true, true
		}},
		{"tied", "LlamaForCausalLM", fields{"tie_word_embeddings": true}, func(c *Config) { c.Tied = true }},
		{"head_dim", "LlamaForCausalLM", fields{"head_dim": 32}, func(c *Config) { c.HeadDim = 32 }},
		{"head_dim null", "LlamaForCausalLM", fields{"head_dim": nil}, func(c *Config) {}},
		{"no class", "LlamaForCausalLM", fields{"architectures": absent}, func(c *Config) {}},
		{"eos list", "LlamaForCausalLM", fields{"eos_token_id": []int{7, 5}, "bos_token_id": nil}, func(c *Config) {
			c.EOS, c.BOS = []uint32{7, 5}, nil
		}},
		{"default eps", "LlamaForCausalLM", fields{"rms_norm_eps": absent}, func(c *Config) { c.Norm.Eps = 1e-6 }},
		{"integral float", "LlamaForCausalLM", fields{"vocab_size": json.RawMessage("1e2")}, func(c *Config) {}},
		{"rope_theta", "LlamaForCausalLM", fields{"rope_theta": 500000}, func(c *Config) { c.Rope.Theta = 500000 }},
		{"rope_scaling null", "LlamaForCausalLM", fields{"rope_scaling": nil}, func(c *Config) {}},
		{"old linear", "LlamaForCausalLM", fields{"rope_scaling": fields{"type": "linear", "factor": 2}},
			func(c *Config) { c.Rope.Type, c.Rope.Factor = RopeLinear, 2 }},
		{"new linear", "LlamaForCausalLM", fields{"rope_parameters": fields{"rope_type": "linear", "rope_theta": 7,
			"factor": 2}},
			func(c *Config) { c.Rope = Rope{Type: RopeLinear, Theta: 7, Factor: 2, Attention: 1} }},
		{"mistral window", "MistralForCausalLM", fields{"sliding_window": 9}, func(c *Config) {
			c.Windows = []int{9, 9, 9}
		}},
		{"mistral without window", "MistralForCausalLM", fields{"sliding_window": nil}, func(c *Config) {}},
		{"mistral default window", "MistralForCausalLM", nil, func(c *Config) { c.Windows = []int{4096, 4096, 4096} }},
		{"qwen2", "Qwen2ForCausalLM", fields{"sliding_window": 9, "max_window_layers": 1, "use_sliding_window": false},
			func(c *Config) { c.QKVBias = true }},
		{"qwen2 window", "Qwen2ForCausalLM", fields{"sliding_window": 9, "max_window_layers": 1,
			"use_sliding_window": true},
			func(c *Config) { c.QKVBias, c.Windows = true, []int{0, 9, 9} }},
		{"qwen2 window null", "Qwen2ForCausalLM", fields{"sliding_window": nil, "max_window_layers": 1,
			"use_sliding_window": true}, func(c *Config) { c.QKVBias = true }},
		{"qwen2 layer types", "Qwen2ForCausalLM", fields{"sliding_window": 9, "use_sliding_window": true,
			"layer_types": []string{slidingAttention, fullAttention, fullAttention}},
			func(c *Config) { c.QKVBias, c.Windows = true, []int{9, 0, 0} }},
		{"qwen3", "Qwen3ForCausalLM", nil, func(c *Config) { c.QKNorm.Over, c.HeadDim = QKNormHead, 128 }},
		{"qwen3 bias", "Qwen3ForCausalLM", fields{"attention_bias": true, "head_dim": 32}, func(c *Config) {
			c.QKNorm.Over, c.HeadDim, c.QKVBias, c.OutBias = QKNormHead, 32, true, true
		}},
		{"unknown but inert", "LlamaForCausalLM", fields{"my_note": "x", "my_flag": false, "my_list": []int{},
			"my_object": fields{}, "my_null": nil}, func(c *Config) {}},
		{"neutral values", "LlamaForCausalLM", fields{"_private_number": 7, "pretraining_tp": 1,
			"partial_rotary_factor": json.RawMessage("1.0"), "rope_interleaved": false, "quantization_config": nil},
			func(c *Config) {}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := base(c.architecture).with(c.set).parse(t)
			if err != nil {
				t.Fatal(err)
			}
			want := plain
			want.Architecture, want.Windows = c.architecture, slices.Clone(plain.Windows)
			c.want(&want)
			want.Scales.Attention = 1 / math.Sqrt(float64(want.HeadDim))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("config\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	cases := []struct {
		name, architecture string
		set                fields
		want               string
	}{
		{"class", "LlamaForCausalLM", fields{"architectures": []string{"MambaForCausalLM"}},
			`architectures: "MambaForCausalLM" is not supported; docs/models.md lists what is`},
		{"relative", "LlamaForCausalLM", fields{"architectures": []string{"Qwen3NextForCausalLM"}},
			`architectures: "Qwen3NextForCausalLM" is not supported; the nearest that is: Qwen3ForCausalLM; docs/models.md lists all`},
		{"two classes", "LlamaForCausalLM", fields{"architectures": []string{"a", "b"}},
			"architectures: names 2 classes, want 1"},
		{"classes", "LlamaForCausalLM", fields{"architectures": 7}, "architectures: want a list of strings, got 7"},
		{"model type", "LlamaForCausalLM", fields{"architectures": absent, "model_type": "mamba"},
			`model_type: "mamba" is not supported; docs/models.md lists what is`},
		{"types disagree", "LlamaForCausalLM", fields{"model_type": "qwen2"},
			`model_type: is "qwen2", but architectures names LlamaForCausalLM, whose type is "llama"`},
		{"missing size", "LlamaForCausalLM", fields{"hidden_size": absent}, "hidden_size: is missing"},
		{"null size", "LlamaForCausalLM", fields{"hidden_size": nil}, "hidden_size: is missing"},
		{"size 0", "LlamaForCausalLM", fields{"vocab_size": 0},
			"vocab_size: want an integer from 1 to 16777216, got 0"},
		{"huge", "LlamaForCausalLM", fields{"num_hidden_layers": 1e9},
			"num_hidden_layers: want an integer from 1 to 4096, got 1000000000"},
		{"fraction", "LlamaForCausalLM", fields{"hidden_size": 64.5},
			"hidden_size: want an integer from 1 to 1048576, got 64.5"},
		{"text", "LlamaForCausalLM", fields{"hidden_size": "64"},
			`hidden_size: want an integer from 1 to 1048576, got "64"`},
		{"kv heads", "LlamaForCausalLM", fields{"num_key_value_heads": 3},
			"num_key_value_heads: 3 does not divide num_attention_heads 4"},
		{"kv heads missing", "Qwen2ForCausalLM", fields{"num_key_value_heads": absent},
			"num_key_value_heads: is missing"},
		{"odd head", "LlamaForCausalLM", fields{"head_dim": 15}, "head_dim: 15: want an even number of at most 1024"},
		{"derived head", "LlamaForCausalLM", fields{"hidden_size": 66},
			"hidden_size: 66 is not a multiple of num_attention_heads 4, and head_dim is not given"},
		{"eps", "LlamaForCausalLM", fields{"rms_norm_eps": -1}, "rms_norm_eps: want a number from 0 to 1, got -1"},
		{"activation", "LlamaForCausalLM", fields{"hidden_act": "mish"}, `hidden_act: "mish" is not supported, want one of gelu, gelu_fast`},
		{"eos", "LlamaForCausalLM", fields{"eos_token_id": -1},
			"eos_token_id: want a token id or a list of them, got -1"},
		{"tied", "LlamaForCausalLM", fields{"tie_word_embeddings": 1},
			"tie_word_embeddings: want true or false, got 1"},
		{"quantised", "LlamaForCausalLM", fields{"quantization_config": fields{"bits": 4}},
			`quantization_config: quant_method is "", want gptq, awq, compressed-tensors, fp8 or bitsandbytes`},
		{"bits", "LlamaForCausalLM", fields{"quantization_config": fields{"quant_method": "gptq", "bits": 3}},
			"quantization_config: 3 bits are not supported for gptq"},
		{"packed otherwise", "LlamaForCausalLM", fields{"quantization_config": fields{"quant_method": "awq",
			"version": "gemv"}}, `quantization_config: version is "gemv", want gemm`},
		{"compressed otherwise", "LlamaForCausalLM", fields{"quantization_config": fields{
			"quant_method": "compressed-tensors", "format": "marlin-24"}}, `quantization_config: format is "marlin-24"`},
		{"softcap", "LlamaForCausalLM", fields{"attn_logit_softcapping": 50.0},
			"attn_logit_softcapping: 50: soft capping of attention scores is not supported"},
		{"partial", "LlamaForCausalLM", fields{"partial_rotary_factor": 0.5},
			"partial_rotary_factor: 0.5: rotating a part of each head is not supported"},
		{"tensor parallel", "LlamaForCausalLM", fields{"pretraining_tp": 2},
			"pretraining_tp: 2: weights split for tensor parallelism are not supported"},
		{"interleaved", "LlamaForCausalLM", fields{"rope_interleaved": true},
			"rope_interleaved: true: interleaved rotary embedding is not supported"},
		{"experts", "MistralForCausalLM", fields{"num_local_experts": 8},
			"num_local_experts: 8: mixtures of experts are not supported"},
		{"unknown number", "LlamaForCausalLM", fields{"my_scale": 0.5},
			"my_scale: 0.5 is unknown for LlamaForCausalLM and may change what the model computes"},
		{"unknown flag", "LlamaForCausalLM", fields{"my_flag": true},
			"my_flag: true is unknown for LlamaForCausalLM and may change what the model computes"},
		{"foreign bias", "MistralForCausalLM", fields{"attention_bias": true},
			"attention_bias: true is unknown for MistralForCausalLM"},
		{"llama window", "LlamaForCausalLM", fields{"sliding_window": 9},
			"sliding_window: 9: this architecture has no sliding window"},
		{"llama layer types", "LlamaForCausalLM", fields{"layer_types": []string{fullAttention, slidingAttention,
			fullAttention}}, `layer_types: layer 1 is "sliding_attention": this architecture has only "full_attention"`},
		{"layer types length", "Qwen2ForCausalLM", fields{"layer_types": []string{fullAttention}},
			"layer_types: has 1 entries, want num_hidden_layers 3"},
		{"layer type", "Qwen2ForCausalLM", fields{"layer_types": []string{fullAttention, "linear_attention",
			fullAttention}},
			`layer_types: layer 1 is "linear_attention", want "full_attention" or "sliding_attention"`},
		{"window off", "Qwen2ForCausalLM", fields{"layer_types": []string{fullAttention, slidingAttention,
			fullAttention}}, `layer_types: layer 1 is "sliding_attention", but use_sliding_window is off`},
		{"mistral layer types", "MistralForCausalLM", fields{"sliding_window": 9,
			"layer_types": []string{slidingAttention, fullAttention, slidingAttention}},
			`layer_types: layer 1 is "full_attention", but sliding_window is 9 for all layers`},
		{"window 0", "MistralForCausalLM", fields{"sliding_window": 0},
			"sliding_window: want an integer from 1 to 16777216, got 0"},
		{"rope type", "LlamaForCausalLM", fields{"rope_scaling": fields{"rope_type": "spiral"}},
			`rope_scaling.rope_type: "spiral" is not supported, want default, linear, dynamic, llama3, yarn or longrope`},
		{"rope twice", "LlamaForCausalLM", fields{"rope_scaling": fields{"rope_type": "default"},
			"rope_parameters": fields{"rope_type": "default"}},
			"rope_scaling: is given beside rope_parameters, want one of them"},
		{"rope factor", "LlamaForCausalLM", fields{"rope_scaling": fields{"rope_type": "linear"}},
			"rope_scaling.factor: is missing"},
		{"rope list", "LlamaForCausalLM", fields{"rope_scaling": []int{1}}, "rope_scaling: want an object, got [1]"},
		{"rope key", "LlamaForCausalLM", fields{"rope_parameters": fields{"rope_type": "linear", "factor": 2,
			"twist": 3}}, "rope_parameters.twist: 3 is unknown for rope type linear"},
		{"rope partial", "Qwen3ForCausalLM", fields{"rope_parameters": fields{"rope_type": "default",
			"partial_rotary_factor": 0.5}},
			"rope_parameters.partial_rotary_factor: 0.5: rotating a part of each head is not supported"},
		{"rope by layer type", "Qwen3ForCausalLM",
			fields{"rope_parameters": fields{"full_attention": fields{"rope_theta": 7}}},
			"rope_parameters.full_attention: "},
		{"llama3 ramp", "LlamaForCausalLM", fields{"rope_scaling": fields{"rope_type": "llama3", "factor": 8,
			"low_freq_factor": 4, "high_freq_factor": 4}},
			"rope_scaling.high_freq_factor: want more than low_freq_factor 4, got 4"},
		{"yarn theta", "LlamaForCausalLM", fields{"rope_parameters": fields{"rope_type": "yarn", "rope_theta": 1,
			"factor": 2}}, "rope_parameters.rope_theta: want more than 1 for yarn, got 1"},
		{"theta", "LlamaForCausalLM", fields{"rope_theta": 0}, "rope_theta: want a number from 1 to 1e+18, got 0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := base(c.architecture).with(c.set).parse(t)
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("error %v does not wrap ErrConfig", err)
			}
			if !strings.HasPrefix(err.Error(), "config.json: unusable model configuration: "+c.want) {
				t.Errorf("error\n got %s\nwant %s", err, c.want)
			}
		})
	}
	for _, text := range []string{"", "null", "[]", "{", `{"vocab_size":1}x`} {
		if _, err := ParseConfig([]byte(text)); !errors.Is(err, ErrConfig) {
			t.Errorf("%q gave %v", text, err)
		}
	}
}

// TestRopesOfTransformers compares frequencies with those that Python computes
// in 32 bits.
func TestRopesOfTransformers(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "ropes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		HeadDim     int       `json:"head_dim"`
		Rope        fields    `json:"rope_parameters"`
		Attention   float64   `json:"attention"`
		Frequencies []float64 `json:"frequencies"`
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, c := range cases {
		cfg, err := base("LlamaForCausalLM").with(fields{"head_dim": c.HeadDim, "max_position_embeddings": 131072,
			"rope_parameters": c.Rope}).parse(t)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(cfg.Rope.Attention-c.Attention) > 1e-7 {
			t.Errorf("%v: attention factor %g, want %g", c.Rope, cfg.Rope.Attention, c.Attention)
		}
		got := cfg.Rope.Frequencies(c.HeadDim)
		if len(got) != len(c.Frequencies) {
			t.Fatalf("%v: %d frequencies, want %d", c.Rope, len(got), len(c.Frequencies))
		}
		for i, want := range c.Frequencies {
			if math.Abs(got[i]-want) > 1e-6*want {
				t.Errorf("%v: frequency %d is %g, want %g", c.Rope, i, got[i], want)
				break
			}
		}
	}
}

func FuzzConfig(f *testing.F) {
	for name := range families {
		data, _ := json.Marshal(base(name))
		f.Add(data)
	}
	f.Add([]byte(`{"model_type":"llama","vocab_size":1,"hidden_size":2,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":1,` +
		`"max_position_embeddings":1,"rope_theta":1,"rope_scaling":{"rope_type":"yarn","beta_slow":1e-300,"beta_fast":1e18}}`))
	for _, dir := range []string{"llama3", "llama3-v5", "mistral", "qwen2", "qwen2-yarn", "qwen3-window"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "golden", dir, ConfigFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Errorf("error %v does not wrap ErrConfig", err)
			}
			return
		}
		if len(c.Windows) != c.Layers || c.Heads%c.KVHeads != 0 || c.HeadDim%2 != 0 || c.HeadDim < 2 || c.Vocab < 1 {
			t.Errorf("accepted %+v", c)
		}
		for _, x := range c.Rope.Frequencies(c.HeadDim) {
			if x != x || math.IsInf(x, 0) {
				t.Errorf("frequency %g of %+v", x, c.Rope)
			}
		}
	})
}
