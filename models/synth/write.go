package synth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// Write writes a checkpoint of the named shape into dir, which must be empty or not exist. The
// same shape and seed give the same bytes on every machine.
func Write(dir, name string, seed uint64) error {
	s, err := lookup(name)
	if err != nil {
		return err
	}
	return s.write(dir, seed)
}

func (s shape) write(dir string, seed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(entries) > 0 {
		return fmt.Errorf("%s: holds %d entries, want an empty folder", dir, len(entries))
	}
	files := []struct {
		name    string
		content any
	}{
		{hf.ConfigFile, s.config()},
		{hf.GenerationFile, map[string]any{"bos_token_id": s.bos, "eos_token_id": s.eos}},
		{hf.TokenizerFile, s.tokenizer()},
		{hf.TokenizerConfigFile, s.tokenizerConfig()},
	}
	for _, f := range files {
		data, err := json.Marshal(f.content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return s.writeWeights(filepath.Join(dir, safetensors.SingleFile), seed)
}

// tensor is one tensor to draw: standard deviation around a mean.
type tensor struct {
	safetensors.Spec
	mean, deviation float64
}

// tensors lists the checkpoint's tensors. Deviations keep the streams near
// unit scale through all layers and make the logits spread by about 3, so that
// distributions are neither flat nor a single spike.
func (s shape) tensors() []tensor {
	var out []tensor
	add := func(name string, mean, deviation float64, shape ...int) {
		dims := make([]int64, len(shape))
		for i, d := range shape {
			dims[i] = int64(d)
		}
		out = append(out, tensor{safetensors.Spec{Name: name, DType: tensors.BF16, Shape: dims}, mean, deviation})
	}
	matrix := func(name string, n, k int) { add(name, 0, 1/math.Sqrt(float64(k)), n, k) }
	add("model.embed_tokens.weight", 0, 3/math.Sqrt(float64(s.hidden)), s.vocab, s.hidden)
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	for i := range s.layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", 1, 0.1, s.hidden)
		add(p+"post_attention_layernorm.weight", 1, 0.1, s.hidden)
		for _, proj := range []struct {
			name string
			rows int
		}{{"q", q}, {"k", kv}, {"v", kv}} {
			matrix(p+"self_attn."+proj.name+"_proj.weight", proj.rows, s.hidden)
			if s.qkvBias {
				add(p+"self_attn."+proj.name+"_proj.bias", 0, 0.1, proj.rows)
			}
		}
		matrix(p+"self_attn.o_proj.weight", s.hidden, q)
		matrix(p+"mlp.gate_proj.weight", s.intermediate, s.hidden)
		matrix(p+"mlp.up_proj.weight", s.intermediate, s.hidden)
		matrix(p+"mlp.down_proj.weight", s.hidden, s.intermediate)
	}
	add("model.norm.weight", 1, 0.1, s.hidden)
	if s.untied {
		add("lm_head.weight", 0, 3/math.Sqrt(float64(s.hidden)), s.vocab, s.hidden)
	}
	return out
}

func (s shape) writeWeights(path string, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = func() error {
		tensors := s.tensors()
		specs := make([]safetensors.Spec, len(tensors))
		for i, t := range tensors {
			specs[i] = t.Spec
		}
		if err := safetensors.WriteHeader(w, specs); err != nil {
			return err
		}
		for i, t := range tensors {
			if err := t.draw(w, seed, uint64(i)); err != nil {
				return err
			}
		}
		return w.Flush()
	}()
	return errors.Join(err, f.Close())
}
