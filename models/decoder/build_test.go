package decoder

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// tinyConfig is a model of one layer.
func tinyConfig() hf.Config {
	c, err := hf.ParseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 5, "hidden_size": 8,
		"intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
		"max_position_embeddings": 16, "rms_norm_eps": 1e-5}`))
	if err != nil {
		panic(err)
	}
	return c
}

// fixture is a checkpoint with the tensors that its configuration asks for,
// after change had them.
func fixture(t testing.TB, c hf.Config, change func(specs map[string]safetensors.Spec)) *hf.Checkpoint {
	t.Helper()
	specs := map[string]safetensors.Spec{}
	for name, shape := range expected(&c) {
		specs[name] = safetensors.Spec{Name: name, DType: tensors.F32, Shape: shape}
	}
	change(specs)
	var names []string
	for name := range specs {
		names = append(names, name)
	}
	slices.Sort(names)
	var list []safetensors.Spec
	var body []byte
	for i, name := range names {
		list = append(list, specs[name])
		n, err := specs[name].Bytes()
		if err != nil {
			t.Fatal(err)
		}
		body = append(body, bytes.Repeat([]byte{byte(i)}, int(n))...)
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, list); err != nil {
		t.Fatal(err)
	}
	set, err := parseTensors(append(file.Bytes(), body...))
	if err != nil {
		t.Fatal(err)
	}
	return &hf.Checkpoint{Name: "tiny", Config: c, Tensors: set}
}

func TestBuildRefusesCheckpointsThatDoNotFit(t *testing.T) {
	type specs = map[string]safetensors.Spec
	set := func(s specs, name string, d tensors.DType, shape ...int64) {
		s[name] = safetensors.Spec{Name: name, DType: d, Shape: shape}
	}
	const gate = "model.layers.0.mlp.gate_proj.weight"
	cases := []struct {
		name   string
		config func(c *hf.Config)
		change func(s specs)
		want   string
	}{
		{"missing", nil, func(s specs) { delete(s, gate) }, `tensor "` + gate + `": not in the checkpoint`},
		{"missing head", nil, func(s specs) { delete(s, "lm_head.weight") }, `tensor "lm_head.weight": not in the checkpoint`},
		{"missing bias", func(c *hf.Config) { c.QKVBias = true }, func(s specs) {
			delete(s, "model.layers.0.self_attn.k_proj.bias")
		},
			`tensor "model.layers.0.self_attn.k_proj.bias": not in the checkpoint`},
		{"missing q norm", func(c *hf.Config) { c.QKNorm.Over = hf.QKNormHead }, func(s specs) {
			delete(s, "model.layers.0.self_attn.q_norm.weight")
		},
			`tensor "model.layers.0.self_attn.q_norm.weight": not in the checkpoint`},
		{"shape", nil, func(s specs) { set(s, gate, "F32", 8, 6) }, `model.safetensors: tensor "` + gate +
			`" has shape [8 6], want [6 8]`},
		{"vocabulary", nil, func(s specs) { set(s, "model.embed_tokens.weight", "F32", 6, 8) },
			`tensor "model.embed_tokens.weight" has shape [6 8], want [5 8]`},
		{"rank", nil, func(s specs) { set(s, "model.norm.weight", "F32", 8, 1) },
			`tensor "model.norm.weight" has shape [8 1], want [8]`},
		{"type", nil, func(s specs) { set(s, gate, "I8", 6, 8) }, `tensor "` + gate +
			`" has dtype I8, want F32, F16 or BF16`},
		{"bias that the configuration does not know", nil, func(s specs) {
			set(s, "model.layers.0.self_attn.q_proj.bias", "F32", 8)
		},
			`tensor "model.layers.0.self_attn.q_proj.bias" is not part of LlamaForCausalLM with this configuration`},
		{"layer too many", nil, func(s specs) { set(s, "model.layers.1.mlp.gate_proj.weight", "F32", 6, 8) },
			`tensor "model.layers.1.mlp.gate_proj.weight" is not part of LlamaForCausalLM with this configuration`},
		{"tied with another head", func(c *hf.Config) { c.Tied = true }, func(s specs) {
			set(s, "lm_head.weight", "F32", 5, 8)
		},
			`tensor "lm_head.weight" differs from "model.embed_tokens.weight", but config.json says tie_word_embeddings`},
		{"old frequencies", nil, func(s specs) { set(s, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 2) },
			""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config := tinyConfig()
			if c.config != nil {
				c.config(&config)
			}
			_, err := Build(fixture(t, config, c.change), io.Discard, Options{Weights: models.FP32})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestTiedHeadMayBeStoredToo(t *testing.T) {
	config := tinyConfig()
	config.Tied = true
	set, err := parseTensors(tiedTwice(t, config))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Build(&hf.Checkpoint{Name: "tiny", Config: config, Tensors: set}, io.Discard,
		Options{Weights: models.FP32})
	if err != nil {
		t.Fatal(err)
	}
	var params int64
	for _, shape := range expected(&config) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		params += n
	}
	if r.Arch.Params != params {
		t.Errorf("%d parameters, want %d: the head was counted beside the embedding", r.Arch.Params, params)
	}
}

// tiedTwice is a file of zeros that holds the tied head beside the embedding.
func tiedTwice(t *testing.T, c hf.Config) []byte {
	t.Helper()
	all := expected(&c)
	all["lm_head.weight"] = all["model.embed_tokens.weight"]
	var specs []safetensors.Spec
	var size int64
	for name, shape := range all {
		s := safetensors.Spec{Name: name, DType: tensors.BF16, Shape: shape}
		n, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		size += n
		specs = append(specs, s)
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	return append(file.Bytes(), make([]byte, size)...)
}

func TestBuildReportsProgressAndShape(t *testing.T) {
	ck, _ := readGolden(t, "qwen3")
	for _, w := range []models.Weights{models.FP32, models.Int8, models.Int4} {
		done, total := int64(-1), int64(0) // the beginning is told as 0
		var data bytes.Buffer
		r, err := Build(ck, &data, Options{Weights: w, Progress: func(d, n int64) {
			if d <= done || done < 0 && d != 0 {
				t.Errorf("%s: progress went from %d to %d", w, done, d)
			}
			done, total = d, n
		}})
		if err != nil {
			t.Fatal(err)
		}
		if done != total || total != r.Arch.Params {
			t.Errorf("%s: progress ended at %d of %d, %d parameters", w, done, total, r.Arch.Params)
		}
		if r.DataBytes != int64(data.Len()) {
			t.Errorf("%s: %d bytes reported, %d written", w, r.DataBytes, data.Len())
		}
		if quantised := r.Error.Count() > 0; quantised != (w != models.FP32) {
			t.Errorf("%s: %d weights were quantised", w, r.Error.Count())
		}
		want := models.Arch{Name: "qwen3", Architecture: "Qwen3ForCausalLM", Layers: 2, Heads: 4, KVHeads: 2,
			HeadDim: 32, Vocab: 160, MaxPositions: 160, Params: r.Arch.Params}
		if r.Arch != want {
			t.Errorf("%s: %+v, want %+v", w, r.Arch, want)
		}
	}
	if _, err := Build(ck, io.Discard, Options{Weights: "int3"}); err == nil {
		t.Error("int3 was accepted")
	}
}

// TestTiedTablesAreStoredOnce holds that the embedding's bytes are in the file
// once, in every form.
func TestTiedTablesAreStoredOnce(t *testing.T) {
	ck, _ := readGolden(t, "smollm2")
	untied := *ck
	untied.Config.Tied = false
	untied.Tensors = rewriteWithHead(t, ck)
	for _, w := range []models.Weights{models.FP32, models.Int8, models.Int4} {
		tied, err := Build(ck, io.Discard, Options{Weights: w})
		if err != nil {
			t.Fatal(err)
		}
		apart, err := Build(&untied, io.Discard, Options{Weights: w})
		if err != nil {
			t.Fatal(err)
		}
		table := int64(ck.Config.Vocab * ck.Config.Hidden / 2) // bytes of 4-bit codes, the smallest form
		if apart.DataBytes-tied.DataBytes < table {
			t.Errorf("%s: %d bytes tied, %d apart", w, tied.DataBytes, apart.DataBytes)
		}
	}
}

func rewriteWithHead(t *testing.T, ck *hf.Checkpoint) *tensors.Set {
	t.Helper()
	c := ck.Config
	c.Tied = false
	return fixture(t, c, func(map[string]safetensors.Spec) {}).Tensors
}

// brokenDisk fails after some bytes.
type brokenDisk struct{ left int }

var errDisk = errors.New("disk is full")

func (d *brokenDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestBuildReportsADiskThatFails(t *testing.T) {
	ck, _ := readGolden(t, "llama2")
	for _, w := range []models.Weights{models.FP32, models.Int4} {
		if _, err := Build(ck, &brokenDisk{left: 1000}, Options{Weights: w}); !errors.Is(err, errDisk) {
			t.Errorf("%s: got %v", w, err)
		}
	}
}
