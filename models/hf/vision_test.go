package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// smolVLM is the configuration of SmolVLM-256M-Instruct, shortened by keys that are ignored.
const smolVLM = `{"architectures": ["Idefics3ForConditionalGeneration"], "image_token_id": 49190, "model_type": "idefics3",
"pad_token_id": 128002, "scale_factor": 4, "text_config": {"_flash_attn_2_enabled": true,
"architectures": ["VLlama3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "head_dim": 64,
"hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
"is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama",
"neftune_noise_alpha": 0.0, "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
"pad_token_id": 2, "perceiver_config": {"attention_dropout": 0.0, "resampler_depth": 6}, "pixel_shuffle_factor": 4,
"pretraining_tp": 1, "qk_layer_norms": false, "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null,
"rope_theta": 100000, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "use_cache": true, "use_resampler": false,
"vocab_size": 49280}, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.46.0",
"use_cache": true, "vision_config": {"hidden_size": 768, "image_size": 512, "max_image_size": {"longest_edge": 512},
"model_type": "idefics3", "num_attention_heads": 12, "patch_size": 16, "size": {"longest_edge": 2048},
"tie_word_embeddings": false, "use_base_siglip": false}, "vocab_size": 49280}`

// llava15 is that of llava-1.5-7b-hf, which leaves most of its text model to defaults.
const llava15 = `{"architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100, "image_token_index": 32000,
"model_type": "llava", "pad_token_id": 32001, "projector_hidden_act": "gelu", "text_config": {
"_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096,
"model_type": "llama", "rms_norm_eps": 1e-05, "torch_dtype": "float16", "vocab_size": 32064},
"tie_word_embeddings": false, "torch_dtype": "float16", "vision_config": {"hidden_size": 1024, "image_size": 336,
"intermediate_size": 4096, "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
"patch_size": 14, "projection_dim": 768, "vocab_size": 32000}, "vision_feature_layer": -2,
"vision_feature_select_strategy": "default", "vocab_size": 32064}`

// llavaNext is that of llava-v1.6-mistral-7b-hf.
const llavaNext = `{"architectures": ["LlavaNextForConditionalGeneration"], "ignore_index": -100,
"image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]], "image_token_index": 32000,
"model_type": "llava_next", "projector_hidden_act": "gelu", "text_config": {
"_name_or_path": "mistralai/Mistral-7B-Instruct-v0.2", "architectures": ["MistralForCausalLM"],
"intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral", "num_key_value_heads": 8,
"rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null, "torch_dtype": "bfloat16",
"vocab_size": 32064}, "torch_dtype": "float16", "use_image_newline_parameter": true, "vision_config": {
"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
"num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32000},
"vision_feature_layer": -2, "vision_feature_select_strategy": "default", "vocab_size": 32064}`

// qwenVL is that of Qwen2.5-VL-7B-Instruct, whose text model's keys are beside those of the whole.
const qwenVL = `{"architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 151643,
"eos_token_id": 151645, "vision_start_token_id": 151652, "vision_end_token_id": 151653, "vision_token_id": 151654,
"image_token_id": 151655, "video_token_id": 151656, "hidden_act": "silu", "hidden_size": 3584,
"initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 128000, "max_window_layers": 28,
"model_type": "qwen2_5_vl", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
"rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": false,
"torch_dtype": "bfloat16", "transformers_version": "4.41.2", "use_cache": true, "use_sliding_window": false,
"vision_config": {"depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
"in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
"window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2},
"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 152064}`

// gemma3 is that of gemma-3-4b-it, which leaves much of its text model to defaults.
const gemma3 = `{"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
"eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144, "initializer_range": 0.02,
"mm_tokens_per_image": 256, "model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
"model_type": "gemma3_text", "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
"sliding_window": 1024}, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "vision_config": {
"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
"num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": false}}`

// TestGemma3: what the configuration of a published Gemma 3 leaves out has transformers' defaults, also without the
// part of the vision tower.
func TestGemma3(t *testing.T) {
	got, err := ParseConfig([]byte(gemma3))
	if err != nil {
		t.Fatal(err)
	}
	want := Vision{Kind: Gemma3Vision, Hidden: 1152, Intermediate: 4304, Layers: 27, Heads: 16, Side: 896, Patch: 14,
		NormEps: 1e-6, Activation: "gelu_pytorch_tanh", Shuffle: 4, Mutual: true, ImageToken: 262144}
	if !reflect.DeepEqual(*got.Vision, want) || want.TileRows() != 256 {
		t.Errorf("%+v, want %+v", *got.Vision, want)
	}
	text, tower, _ := strings.Cut(gemma3, `, "vision_config"`)
	if tower == "" {
		t.Fatal("no vision_config")
	}
	blind, err := ParseConfig([]byte(text + "}"))
	if err != nil || blind.Vision != nil {
		t.Fatalf("%+v, %v", blind.Vision, err)
	}
	for _, c := range []Config{got, blind} {
		if c.Architecture != "Gemma3ForConditionalGeneration" || c.Vocab != 262208 || c.Hidden != 2560 ||
			c.Heads != 8 ||
			c.KVHeads != 4 || c.HeadDim != 256 || c.Layers != 34 || c.MaxPositions != 131072 || !c.Tied ||
			c.Windows[0] != 1024 || c.Windows[5] != 0 || c.Rope.Factor != 8 || c.WindowRope.Theta != 10000 ||
			!reflect.DeepEqual(c.EOS, []uint32{1, 106}) {
			t.Errorf("%+v", c)
		}
	}
	for _, c := range [][3]string{
		{`"mm_tokens_per_image": 256`, `"mm_tokens_per_image": 250`, "mm_tokens_per_image: 250 is not a square"},
		{`"mm_tokens_per_image": 256`, `"mm_tokens_per_image": 225`,
			"mm_tokens_per_image: 225 is not a square whose root divides the 64"},
		{`"image_token_index": 262144`, `"image_token_index": 262208`, "image_token_id: 262208 is not below"},
		{`siglip_vision_model`, `x`, `vision_config.model_type: "x" is not supported`},
	} {
		if _, err := ParseConfig([]byte(strings.Replace(gemma3, c[0], c[1], 1))); err == nil ||
			!strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
}

// TestRopeOfQwenVL: the sections of the rotary embedding are read in each of the forms that files have.
func TestRopeOfQwenVL(t *testing.T) {
	for _, rope := range []string{`"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}`,
		`"rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [16, 24, 24]}`,
		`"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]}`,
		`"rope_scaling": null`} {
		got, err := ParseConfig([]byte(strings.Replace(qwenVL, `"rope_scaling": {"type": "mrope", "mrope_section": `+
			`[16, 24, 24]}`, rope, 1)))
		want := Rope{Type: RopeDefault, Theta: 1e6, Attention: 1, Sections: [3]int{16, 24, 24}}
		if err != nil || !reflect.DeepEqual(got.Rope, want) {
			t.Errorf("%s: %+v, %v", rope, got.Rope, err)
		}
	}
}

// TestVisionOfPublishedModels: configurations of published models are read, with the defaults of transformers for what
// they leave out.
func TestVisionOfPublishedModels(t *testing.T) {
	clip := Vision{Kind: LLaVA, Hidden: 1024, Intermediate: 4096, Layers: 23, Unused: 1, Heads: 16, Side: 336,
		Patch: 14, NormEps: 1e-5, Activation: "quick_gelu", Class: true, DropClass: true, Shuffle: 1, Projector: "gelu",
		ProjectorBias: true, ImageToken: 32000}
	next := clip
	next.Kind = LLaVANext
	next.Pinpoints = [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}
	qwen := Vision{Kind: QwenVL, Hidden: 1280, Intermediate: 3420, Layers: 32, Heads: 16, Patch: 14, NormEps: 1e-6,
		Activation: "silu", Shuffle: 2, Window: 4, Full: []int{7, 15, 23, 31}, RopeTheta: 10000, ImageToken: 151655}
	for _, c := range []struct {
		config                                          string
		vision                                          Vision
		text                                            string
		hidden, layers, heads, kv, inter, vocab, length int
		rows                                            int
	}{
		{smolVLM, Vision{Kind: Idefics3, Hidden: 768, Intermediate: 3072, Layers: 12, Heads: 12, Side: 512, Patch: 16,
			NormEps: 1e-6, Activation: "gelu_pytorch_tanh", Shuffle: 4, ImageToken: 49190},
			"Idefics3ForConditionalGeneration", 576, 30, 9, 3, 1536, 49280, 8192, 64},
		{llava15, clip, "LlavaForConditionalGeneration", 4096, 32, 32, 32, 11008, 32064, 4096, 576},
		{llavaNext, next, "LlavaNextForConditionalGeneration", 4096, 32, 32, 8, 14336, 32064, 32768, 576},
		{qwenVL, qwen, "Qwen2_5_VLForConditionalGeneration", 3584, 28, 28, 4, 18944, 152064, 128000, 0},
	} {
		got, err := ParseConfig([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if !reflect.DeepEqual(*got.Vision, c.vision) || got.Vision.TileRows() != c.rows {
			t.Errorf("%s: %+v with %d rows, want %+v", c.text, *got.Vision, got.Vision.TileRows(), c.vision)
		}
		if got.Architecture != c.text || got.Hidden != c.hidden || got.Layers != c.layers || got.Heads != c.heads ||
			got.KVHeads != c.kv || got.Intermediate != c.inter || got.Vocab != c.vocab ||
			got.MaxPositions != c.length || got.Tied {
			t.Errorf("%s: %+v", c.text, got)
		}
	}
}

// TestVisionRefused: settings that would change the embeddings are refused by their names.
func TestVisionRefused(t *testing.T) {
	for _, c := range []struct{ config, from, to, want string }{
		{smolVLM, `"text_config"`, `"texts"`, "text_config: is missing"},
		{smolVLM, `"vision_config": {`, `"vision_config": 3, "x": {`, "vision_config: want an object"},
		{smolVLM, `"patch_size": 16`, `"patch_size": 15`, "vision_config.image_size: 512 is not a multiple of patch_size 15"},
		{smolVLM, `"scale_factor": 4`, `"scale_factor": 5`, "image_size: 512 is not a multiple of patch_size 16 times scale_factor 5"},
		{smolVLM, `"image_token_id": 49190`, `"image_token_id": 49280`, "image_token_id: 49280 is not below"},
		{smolVLM, `"use_base_siglip": false`, `"window_size": 8`, "vision_config.window_size: 8 is unknown"},
		{smolVLM, `"num_attention_heads": 12`, `"num_attention_heads": 7`, "hidden_size: 768 is not a multiple of num_attention_heads 7"},
		{smolVLM, `"use_cache": true, "vision`, `"mm_tokens": 7, "vision`, "mm_tokens: 7 is unknown"},
		{smolVLM, `"idefics3", "num`, `"idefics3", "hidden_act": "relu", "num`, `vision_config.hidden_act: "relu" is not supported`},
		{smolVLM, `"model_type": "llama"`, `"model_type": "mamba"`, `text_config.model_type: "mamba" is not supported`},
		{llava15, `"vision_feature_layer": -2`, `"vision_feature_layer": -25`, "vision_feature_layer: want a layer of 1 to 24"},
		{llava15, `"vision_feature_layer": -2`, `"vision_feature_layer": [-2, -1]`, "want an integer"},
		{llava15, `clip_vision_model`, `siglip_vision_model`, `vision_config.model_type: "siglip_vision_model" is not supported`},
		{llava15, `"default"`, `"cls"`, `vision_feature_select_strategy: "cls" is not supported`},
		{llavaNext, `"default"`, `"full"`, `vision_feature_select_strategy: "full" has no places`},
		{llava15, `"model_type": "llava"`, `"model_type": "llama"`, `model_type: is "llama", but architectures names`},
		{qwenVL, `[16, 24, 24]`, `[16, 24]`, "rope_scaling.mrope_section: want a list of 3 integers"},
		{qwenVL, `[16, 24, 24]`, `[16, 24, 25]`, "mrope_section: [16 24 25]: want a sum of 64"},
		{qwenVL, `[16, 24, 24]`, `[16, 48, 0]`, "mrope_section: [16 48 0]: want 3 numbers of at least 1"},
		{qwenVL, `"type": "mrope"`, `"type": "other"`, `rope_scaling.rope_type: "other" is not supported`},
		{qwenVL, `"temporal_patch_size": 2`, `"temporal_patch_size": 1`, "vision_config.temporal_patch_size: 1: want 2"},
		{qwenVL, `"out_hidden_size": 3584`, `"out_hidden_size": 2048`, "out_hidden_size: 2048: want 3584"},
		{qwenVL, `"window_size": 112`, `"window_size": 27`, "window_size: 27 is below"},
		{qwenVL, `"window_size": 112`, `"window_size": 1120`, "window_size: 1120 has 80 patches in each direction"},
		{qwenVL, `[7, 15, 23, 31]`, `"all"`, "fullatt_block_indexes: want a list of integers"},
		{qwenVL, `"num_heads": 16`, `"num_heads": 3`, "hidden_size: 1280 is not a multiple of 4 times num_heads 3"},
		{qwenVL, `"hidden_act": "silu", "hidden_size": 1280`, `"hidden_act": "gelu", "hidden_size": 1280`,
			`vision_config.hidden_act: "gelu" is not supported`},
		{qwenVL, `"in_chans": 3`, `"in_chans": 1`, "in_chans: 1: want 3"},
		{qwenVL, `"in_chans": 3`, `"in_chans": 3, "deepstack": 3`, "vision_config.deepstack: 3 is unknown"},
		{qwenVL, `"vocab_size": 152064`, `"vocab_size": 152064, "experts": 3`, "experts: 3 is unknown"},
		{qwenVL, `"vision_config"`, `"text_config": {"model_type": "llama"}, "vision_config"`,
			`text_config.model_type: "llama" is not supported, want "qwen2_5_vl_text"`},
	} {
		changed := strings.Replace(c.config, c.from, c.to, 1)
		if changed == c.config {
			t.Fatalf("%s is not in the configuration", c.from)
		}
		if _, err := ParseConfig([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
}

// TestTensorsOfOneName: two tensors that are the same part of the model are refused.
func TestTensorsOfOneName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ConfigFile), []byte(llava15), 0o644); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	var list []safetensors.Spec
	for _, name := range []string{"language_model.model.norm.weight", "model.language_model.norm.weight"} {
		list = append(list, safetensors.Spec{Name: name, DType: tensors.F32, Shape: []int64{1}})
	}
	if err := safetensors.WriteHeader(&file, list); err != nil {
		t.Fatal(err)
	}
	file.Write(make([]byte, 8))
	if err := os.WriteFile(filepath.Join(dir, safetensors.SingleFile), file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "are the same part of the model") {
		t.Error(err)
	}
}
