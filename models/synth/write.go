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
func Write(dir, name string, seed uint64) error { return WriteLayers(dir, name, seed, 0) }

// WriteLayers is Write with another number of layers, unless that is 0.
func WriteLayers(dir, name string, seed uint64, layers int) error {
	s, err := lookup(name)
	if err != nil {
		return err
	}
	if layers < 0 || layers > maxLayers {
		return fmt.Errorf("layers: %d is not from 0 to %d", layers, maxLayers)
	}
	if layers > 0 {
		s.layers = layers
	}
	return s.write(dir, seed)
}

// maxLayers bounds the layers of a checkpoint.
const maxLayers = 1000

// WriteSmallMixture writes a mixture of experts with little in each layer, in files of about shard bytes.
func WriteSmallMixture(dir string, layers int, shard int64) error {
	s := shapes["qwen3-30b-a3b"]
	s.layers, s.shard = layers, shard
	s.hidden, s.heads, s.kvHeads, s.headDim, s.expert, s.experts, s.vocab = 256, 4, 2, 64, 128, 32, 2048
	s.bos, s.eos = 2000, []int{2001}
	return s.write(dir, 1)
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
	return s.writeWeights(dir, seed)
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
		if s.qkNorm {
			add(p+"self_attn.q_norm.weight", 1, 0.1, s.headDim)
			add(p+"self_attn.k_norm.weight", 1, 0.1, s.headDim)
		}
		matrix(p+"self_attn.o_proj.weight", s.hidden, q)
		mlp := func(p string, inner int) {
			matrix(p+"gate_proj.weight", inner, s.hidden)
			matrix(p+"up_proj.weight", inner, s.hidden)
			matrix(p+"down_proj.weight", s.hidden, inner)
		}
		if s.experts == 0 {
			mlp(p+"mlp.", s.intermediate)
			continue
		}
		matrix(p+"mlp.gate.weight", s.experts, s.hidden)
		for e := range s.experts {
			mlp(fmt.Sprintf("%smlp.experts.%d.", p, e), s.expert)
		}
	}
	add("model.norm.weight", 1, 0.1, s.hidden)
	if s.untied {
		add("lm_head.weight", 0, 3/math.Sqrt(float64(s.hidden)), s.vocab, s.hidden)
	}
	return out
}

// writeWeights writes the tensors into one file, or into several and their index.
func (s shape) writeWeights(dir string, seed uint64) error {
	var shards [][]numbered
	var room, total int64
	for i, t := range s.tensors() {
		n, err := t.Bytes()
		if err != nil {
			return err
		}
		if i == 0 || s.shard > 0 && n > room {
			shards, room = append(shards, nil), s.shard
		}
		shards[len(shards)-1] = append(shards[len(shards)-1], numbered{t, uint64(i)})
		room, total = room-n, total+n
	}
	if s.shard == 0 {
		return writeFile(filepath.Join(dir, safetensors.SingleFile), shards[0], seed)
	}
	places := map[string]string{}
	for i, tensors := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, t := range tensors {
			places[t.Name] = name
		}
		if err := writeFile(filepath.Join(dir, name), tensors, seed); err != nil {
			return err
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": places})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, safetensors.IndexFile), append(index, '\n'), 0o644)
}

// numbered is a tensor with its place among all, which its random numbers depend on.
type numbered struct {
	tensor
	index uint64
}

func writeFile(path string, tensors []numbered, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = func() error {
		specs := make([]safetensors.Spec, len(tensors))
		for i, t := range tensors {
			specs[i] = t.Spec
		}
		if err := safetensors.WriteHeader(w, specs); err != nil {
			return err
		}
		for _, t := range tensors {
			if err := t.draw(w, seed, t.index); err != nil {
				return err
			}
		}
		return w.Flush()
	}()
	return errors.Join(err, f.Close())
}
