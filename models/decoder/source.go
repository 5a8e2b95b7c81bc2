package decoder

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/models/hf"
	"tgi/models/safetensors"
)

// Names of tensors; the same in all supported architectures.
const (
	nameEmbed = "model.embed_tokens.weight"
	nameNorm  = "model.norm.weight"
	nameHead  = "lm_head.weight"
)

// errShape is wrapped if a tensor does not match config.json.
var errShape = errors.New("checkpoint does not fit its configuration")

// source holds the checkpoint's tensors after they were checked against the configuration.
type source struct {
	set    *safetensors.Set
	params int64
}

// newSource checks that the checkpoint has exactly the tensors of the architecture, with the
// right shapes, before anything is written.
func newSource(ck *hf.Checkpoint) (*source, error) {
	s := &source{set: ck.Tensors}
	want := expected(ck.Config)
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t, err := s.set.Tensor(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ck.Config.Architecture, err)
		}
		if !slices.Equal(t.Shape, want[name]) {
			return nil, fmt.Errorf("%s: tensor %q has shape %v, want %v: %w", t.File, name, t.Shape, want[name],
				errShape)
		}
		if err := t.Floats(nil, 0); err != nil { // refuses types that cannot be read
			return nil, err
		}
		s.params += int64(t.Len())
	}
	return s, s.checkUnused(ck.Config, want)
}

// checkUnused refuses tensors that the graph would not use, except two redundant kinds: the
// rotary frequencies of old checkpoints, and a copy of the embedding if the head is tied to it.
func (s *source) checkUnused(c hf.Config, want map[string][]int64) error {
	for _, name := range s.set.Names() {
		if _, ok := want[name]; ok || strings.HasSuffix(name, ".rotary_emb.inv_freq") ||
			c.Vision != nil && strings.HasPrefix(name, hf.VisionPrefix) { // which package tower checks
			continue
		}
		t, err := s.set.Tensor(name)
		if err != nil {
			return err
		}
		if name != nameHead || !c.Tied {
			return fmt.Errorf("%s: tensor %q is not part of %s with this configuration: %w", t.File, name,
				c.Architecture, errShape)
		}
		embed, err := s.set.Tensor(nameEmbed)
		if err != nil {
			return err
		}
		if t.DType != embed.DType || !bytes.Equal(t.Bytes(), embed.Bytes()) {
			return fmt.Errorf("%s: tensor %q differs from %q, but %s says tie_word_embeddings: %w", t.File, name,
				nameEmbed, hf.ConfigFile, errShape)
		}
	}
	return nil
}

// expected maps the name of every tensor of the architecture to its shape.
func expected(c hf.Config) map[string][]int64 {
	hidden, inter, dim := int64(c.Hidden), int64(c.Intermediate), int64(c.HeadDim)
	q, kv := int64(c.Heads)*dim, int64(c.KVHeads)*dim
	out := map[string][]int64{nameEmbed: {int64(c.Vocab), hidden}, nameNorm: {hidden}}
	if !c.Tied {
		out[nameHead] = []int64{int64(c.Vocab), hidden}
	}
	linear := func(prefix string, n, k int64, bias bool) {
		out[prefix+".weight"] = []int64{n, k}
		if bias {
			out[prefix+".bias"] = []int64{n}
		}
	}
	for i := range c.Layers {
		p := layerPrefix(i)
		out[p+"input_layernorm.weight"] = []int64{hidden}
		out[p+"post_attention_layernorm.weight"] = []int64{hidden}
		linear(p+"self_attn.q_proj", q, hidden, c.QKVBias)
		linear(p+"self_attn.k_proj", kv, hidden, c.QKVBias)
		linear(p+"self_attn.v_proj", kv, hidden, c.QKVBias)
		linear(p+"self_attn.o_proj", hidden, q, c.OutBias)
		linear(p+"mlp.gate_proj", inter, hidden, c.MLPBias)
		linear(p+"mlp.up_proj", inter, hidden, c.MLPBias)
		linear(p+"mlp.down_proj", hidden, inter, c.MLPBias)
		if c.QKNorm {
			out[p+"self_attn.q_norm.weight"] = []int64{dim}
			out[p+"self_attn.k_norm.weight"] = []int64{dim}
		}
	}
	return out
}

func layerPrefix(i int) string { return fmt.Sprintf("model.layers.%d.", i) }
