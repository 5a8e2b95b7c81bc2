package hf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/gguf/gguftest"
)

// changedGGUF returns a folder with a file after some changes of its keys; nil removes one.
func changedGGUF(changes map[string]any) fstest.MapFS {
	keys, list := gguftest.Llama()
	for key, v := range changes {
		if keys[key] = v; v == nil {
			delete(keys, key)
		}
	}
	return fstest.MapFS{"m.gguf": {Data: gguftest.File(keys, list)}}
}

func TestGGUFDescribed(t *testing.T) {
	c, err := OpenFS(changedGGUF(map[string]any{"tokenizer.ggml.eot_token_id": 4,
		"tokenizer.chat_templates": []string{"tool_use"}, "tokenizer.chat_template.tool_use": "tools"}),
		"some-name.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Name != "some-name" || c.GGUF != "m.gguf" || c.Config.Architecture != "LlamaForCausalLM" ||
		c.Config.HeadDim != 16 ||
		!c.Config.Tied || c.Config.Vocab != 8 || !slices.Equal(c.EOS(), []uint32{1, 4}) || c.Coded != nil {
		t.Errorf("%+v", c)
	}
	if k := c.Tokenizer; k.BOS != "<s>" || k.EOS != "</s>" || k.ChatTemplates["tool_use"] != "tools" || *k.AddBOS ||
		len(k.ChatTemplates) != 2 {
		t.Errorf("%+v", k)
	}
	if !c.Tensors.Has("model.layers.0.self_attn.q_proj.weight") {
		t.Errorf("tensors are named %v", c.Tensors.Names())
	}
}

// TestGGUFSettings: keys that change what is computed do.
func TestGGUFSettings(t *testing.T) {
	for name, c := range map[string]struct {
		changes map[string]any
		seen    func(c *Config) bool
	}{
		"linear without a type": {map[string]any{"llama.rope.scaling.factor": float32(4)}, func(c *Config) bool {
			return c.Rope.Type == RopeLinear && c.Rope.Factor == 4
		}},
		"linear in an old file": {map[string]any{"llama.rope.scale_linear": float32(2)}, func(c *Config) bool {
			return c.Rope.Type == RopeLinear && c.Rope.Factor == 2
		}},
		"yarn": {map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(2),
			"llama.rope.scaling.original_context_length": 32}, func(c *Config) bool {
			return c.Rope.Type == RopeYarn && c.Rope.OriginalMax == 32
		}},
		"base": {map[string]any{"llama.rope.freq_base": float32(5e5)},
			func(c *Config) bool { return c.Rope.Theta == 5e5 }},
		"scale of scores": {map[string]any{"llama.attention.scale": float32(0.5)},
			func(c *Config) bool { return c.Scales.Attention == 0.5 }},
		"the right epsilon": {map[string]any{"llama.attention.layer_norm_epsilon": float32(1)}, func(c *Config) bool {
			return c.Norm.Eps == 1e-5
		}},
	} {
		ck, err := DescribeFS(changedGGUF(c.changes), "m")
		if err != nil || !c.seen(&ck.Config) {
			t.Errorf("%s: %+v, %v", name, ck, err)
		}
	}
}

// TestGGUFEnds: special tokens that are known to end a text do, also if the file names another.
func TestGGUFEnds(t *testing.T) {
	for name, c := range map[string]struct {
		tokens []string
		want   []uint32
	}{
		"chat":    {[]string{"<s>", "</s>", "<|end|>", "<|im_end|>", "c", "ab", "x", "y"}, []uint32{1, 2, 3}},
		"gpt-oss": {[]string{"<|call|>", "</s>", "<|end|>", "<|return|>", "c", "ab", "x", "y"}, []uint32{0, 1, 3}},
	} {
		ck, err := DescribeFS(changedGGUF(map[string]any{"tokenizer.ggml.tokens": c.tokens,
			"tokenizer.ggml.token_type": []int{3, 3, 3, 3, 1, 1, 1, 1}}), "m")
		if err != nil || !slices.Equal(ck.EOS(), c.want) {
			t.Errorf("%s: %v, %v", name, ck.EOS(), err)
		}
	}
}

// TestGGUFRefused: what metadata say wrongly is an error that names the key, before a weight is read.
func TestGGUFRefused(t *testing.T) {
	for name, c := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"no architecture": {map[string]any{"general.architecture": nil}, `general.architecture: "" is not supported`},
		"architecture":    {map[string]any{"general.architecture": "qwen2vl"}, "the nearest that is: qwen2"},
		"no width":        {map[string]any{"llama.embedding_length": nil}, "llama.embedding_length is missing"},
		"no epsilon": {map[string]any{"llama.attention.layer_norm_rms_epsilon": nil},
			"llama.attention.layer_norm_rms_epsilon is missing"},
		"not causal": {map[string]any{"llama.attention.causal": false}, "llama.attention.causal: false"},
		"too many tokens": {map[string]any{"tokenizer.ggml.tokens": []string{"a", "b", "c", "d", "e", "f", "g", "h",
			"i"}},
			"has 9, but the embedding has 8 rows"},
		"long texts": {map[string]any{"general.architecture": strings.Repeat("x", 1000)}, `xxx..." is not supported`},
		"long token": {map[string]any{"tokenizer.ggml.tokens": []string{"a", strings.Repeat("b", 1025)}},
			"entry 1 has 1025 bytes, at most 1024 are allowed"},
		"name of template": {map[string]any{"tokenizer.chat_templates": []string{"a\n"}},
			`tokenizer.chat_templates: entry 0 is "a\n", want`},
		"no layers": {map[string]any{"llama.block_count": 0}, "num_hidden_layers: want an integer from 1"},
		"heads":     {map[string]any{"llama.attention.head_count": 3}, "is not a multiple of num_attention_heads 3"},
		"heads of layers": {map[string]any{"llama.attention.head_count": []int{2, 4}},
			"has 2 entries, want one for each of 1 layers"},
		"values":            {map[string]any{"llama.attention.key_length": 16, "llama.attention.value_length": 8}, "value_length"},
		"rotated part":      {map[string]any{"llama.rope.dimension_count": 8}, "rotating 8 of 16 numbers of a head"},
		"rope":              {map[string]any{"llama.rope.scaling.type": "su"}, `llama.rope.scaling.type: "su" is not supported`},
		"text for a number": {map[string]any{"llama.block_count": "1"}, "llama.block_count: is no number"},
		"tokenizer":         {map[string]any{"tokenizer.ggml.model": "bert"}, `tokenizer.ggml.model: "bert" is not supported`},
		"pre-tokenizer":     {map[string]any{"tokenizer.ggml.pre": "chameleon"}, `tokenizer.ggml.pre: "chameleon" is not supported`},
		"no tokens":         {map[string]any{"tokenizer.ggml.tokens": nil}, "tokenizer.ggml.tokens is missing"},
		"end":               {map[string]any{"tokenizer.ggml.eos_token_id": 8}, "eos_token_id: is 8, but there are 8 tokens"},
		"merge":             {map[string]any{"tokenizer.ggml.merges": []string{"ab"}}, `entry 0 is "ab", want two pieces`},
		"scores":            {map[string]any{"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.scores: has 0 numbers for 8 tokens"},
		"template": {map[string]any{"tokenizer.chat_template": strings.Repeat("x", MaxTemplate+1)},
			"tokenizer.chat_template: the template has 1048577 bytes"},
	} {
		_, err := DescribeFS(changedGGUF(c.changes), "m")
		if !errors.Is(err, ErrConfig) && !strings.Contains(err.Error(),
			"malformed") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

// TestGGUFFiles: which file of a folder is the model, and that files beside it win over what it says.
func TestGGUFFiles(t *testing.T) {
	keys, list := gguftest.Llama()
	file := &fstest.MapFile{Data: gguftest.File(keys, list)}
	for name, c := range map[string]struct {
		files []string
		want  string
		err   string
	}{
		"one":         {[]string{"a.gguf", "README.md", ".hidden.gguf"}, "a.gguf", ""},
		"projector":   {[]string{"a.gguf", "mmproj-a-f16.gguf"}, "a.gguf", ""},
		"parts":       {[]string{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}, "a-00001-of-00002.gguf", ""},
		"two":         {[]string{"a.gguf", "b.gguf"}, "", "has 2 models in the GGUF format, name the file of one: a.gguf, b.gguf"},
		"safetensors": {[]string{"a.gguf", "b.gguf", "model.safetensors"}, "", ""},
		"none":        {[]string{"config.json"}, "", ""},
	} {
		fsys := fstest.MapFS{}
		for _, f := range c.files {
			fsys[f] = file
		}
		got, err := GGUF(fsys)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "m.gguf")
	for name, text := range map[string]string{"m.gguf": string(file.Data), "chat_template.jinja": "beside",
		"generation_config.json": `{"eos_token_id": 7}`, "tokenizer.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := Describe(dir)
	if err != nil || folder.Tokenizer.ChatTemplates[DefaultTemplate] != "beside" ||
		string(folder.TokenizerJSON) != "{}" ||
		!slices.Equal(folder.EOS(), []uint32{1, 7}) {
		t.Errorf("%+v, %v", folder, err)
	}
	alone, err := Describe(at)
	if err != nil || alone.Tokenizer.ChatTemplates[DefaultTemplate] == "beside" || len(alone.TokenizerJSON) < 100 {
		t.Errorf("%+v, %v", alone, err)
	}
	if names, err := fs.Glob(FS(at), "*"); err != nil || !slices.Equal(names, []string{"m.gguf"}) {
		t.Errorf("%v, %v", names, err)
	}
}
