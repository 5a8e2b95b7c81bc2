package decoder

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tgi/models/hf"
	"tgi/models/tensors"
)

// errShape is wrapped if a tensor does not match config.json.
var errShape = errors.New("checkpoint does not fit its configuration")

// source holds the checkpoint's tensors after they were checked against the configuration.
type source struct {
	set    *tensors.Set
	params int64
}

// weightOf and biasOf name the tensors of a part.
func weightOf(part string) string { return part + ".weight" }
func biasOf(part string) string   { return part + ".bias" }

// nameOf returns the name of the tensor of a part's weight or bias: tensor is weightOf or biasOf.
func nameOf(p hf.Slice, tensor func(part string) string) string {
	if !p.Bare {
		return tensor(p.Tensor)
	}
	return p.Tensor + strings.ReplaceAll(strings.TrimSuffix(tensor(""), ".weight"), ".", "_")
}

// newSource checks that the checkpoint has exactly the tensors of the architecture, with the
// right shapes, before anything is written. It takes the base of the tensors' names out of the
// configuration if the checkpoint has none, as one that was saved without its head.
func newSource(ck *hf.Checkpoint) (*source, error) {
	s, c := &source{set: ck.Tensors}, &ck.Config
	_, base, _ := strings.Cut(c.Tensors.Base, ".")
	if has := s.has(weightOf(c.Tensors.Whole(c.Tensors.Embed))); !has && s.has(weightOf(base+c.Tensors.Embed)) {
		c.Tensors.Base = base
	}
	want := expected(c)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !s.set.Has(name) {
			name = ck.TensorName(name)
		}
		t, err := s.set.Tensor(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Architecture, err)
		}
		if !slices.Equal(t.Shape, want[name]) {
			return nil, fmt.Errorf("%s: tensor %q has shape %v, want %v: %w", t.File, t.Name, t.Shape, want[name],
				errShape)
		}
		if err := t.Floats(nil, 0); err != nil { // refuses types that cannot be read
			return nil, err
		}
		s.params += int64(t.Len())
	}
	return s, s.checkUnused(c, want)
}

func (s *source) has(name string) bool { return slices.Contains(s.set.Names(), name) }

// redundant are the ends of names of tensors that checkpoints hold and nothing needs: rotary frequencies and masks, and
// numbers of XIELU, of which xielu reads what it needs.
var redundant = []string{".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias",
	".attention.masked_bias", ".act_fn.beta", ".act_fn.eps"}

// checkUnused refuses tensors that the graph would not use, except redundant ones, one of which is
// a copy of the embedding if the head is tied to it.
func (s *source) checkUnused(c *hf.Config, want map[string][]int64) error {
	head, table := weightOf(c.Tensors.Head), weightOf(c.Tensors.Whole(c.Tensors.Embed))
	for _, name := range s.set.Names() {
		if _, ok := want[name]; ok ||
			slices.ContainsFunc(redundant, func(end string) bool { return strings.HasSuffix("."+name, end) }) ||
			c.Vision != nil && strings.HasPrefix(name, hf.VisionPrefix) || // which package tower checks
			slices.ContainsFunc(c.Unused, func(begin string) bool { return strings.HasPrefix(name, begin) }) ||
			isExtra(c, name) {
			continue
		}
		t, err := s.set.Tensor(name)
		if err != nil {
			return err
		}
		if name != head || !c.Tied {
			return fmt.Errorf("%s: tensor %q is not part of %s with this configuration: %w", t.File, t.Name,
				c.Architecture, errShape)
		}
		embed, err := s.set.Tensor(table)
		if err != nil {
			return err
		}
		if t.DType != embed.DType || !bytes.Equal(t.Bytes(), embed.Bytes()) {
			return fmt.Errorf("%s: tensor %q differs from %q, but %s says tie_word_embeddings: %w", t.File, name,
				table, hf.ConfigFile, errShape)
		}
	}
	return nil
}

// isExtra reports whether a tensor belongs to another task than that of an encoder.
func isExtra(c *hf.Config, name string) bool {
	return c.Encoder != nil && slices.ContainsFunc(c.Encoder.Extra, func(begin string) bool {
		return strings.HasPrefix(strings.TrimPrefix(name, c.Tensors.Base), begin)
	})
}

// shapes collects the tensors that an architecture has.
type shapes struct {
	c   *hf.Config
	out map[string][]int64
}

// expected maps the name of every tensor of the architecture to its shape.
func expected(c *hf.Config) map[string][]int64 {
	s, t := shapes{c, map[string][]int64{}}, c.Tensors
	vocab, hidden := int64(c.Vocab), int64(c.Hidden)
	s.out[weightOf(t.Whole(t.Embed))] = []int64{vocab, hidden}
	if t.Positions != "" {
		s.out[weightOf(t.Whole(t.Positions))] = []int64{int64(c.MaxPositions + c.Learned), hidden}
	}
	if e := c.Encoder; e != nil {
		s.encoder(e)
	}
	s.norm(t.Whole, t.EmbedNorm)
	s.norm(t.Whole, t.Norm)
	if !c.Tied {
		s.out[weightOf(t.Head)] = []int64{vocab, hidden}
	}
	if c.HeadBias {
		s.out[biasOf(t.Head)] = []int64{vocab}
	}
	for i := range c.Layers {
		inLayer := func(part string) string { return t.InLayer(i, part) }
		for _, part := range []string{attnNorm(c, i), t.AttnPost, t.MLPNorm, t.MLPPost} {
			s.norm(inLayer, part)
		}
		if c.Latent.Rank != 0 {
			s.latent(i)
		} else {
			s.linear(c.QKV(i), c.Hidden, c.QKVBias)
		}
		s.linear([]hf.Slice{c.Out(i)}, c.OutWidth(), c.OutBias)
		if c.HasExperts(i) {
			s.experts(i)
		} else {
			s.linear(c.GateUp(i), c.Hidden, c.MLPBias)
			s.linear([]hf.Slice{c.Down(i)}, c.Intermediate, c.MLPBias)
		}
		if c.Activation == hf.XIELU {
			for part, shape := range map[string][]int64{"alpha_p": {1}, "alpha_n": {1}} {
				s.out[inLayer(t.Act)+"."+part] = shape
			}
		}
		if t.Sinks != "" {
			s.out[inLayer(t.Sinks)] = []int64{int64(c.Heads)}
		}
		s.qkNorm(inLayer(t.QNorm), c.Heads)
		s.qkNorm(inLayer(t.KNorm), c.KVHeads)
	}
	return s.out
}

// norm adds the tensors of a norm, if there is one.
func (s shapes) norm(full func(string) string, part string) {
	if part == "" || s.c.Norm.Plain {
		return
	}
	s.out[weightOf(full(part))] = []int64{int64(s.c.Hidden)}
	if s.c.Norm.Bias {
		s.out[biasOf(full(part))] = []int64{int64(s.c.Hidden)}
	}
}

// linear adds the tensors that hold the parts, matrices of width k.
func (s shapes) linear(parts []hf.Slice, k int, bias bool) {
	for _, p := range parts {
		n := int64(p.Groups * p.Stride)
		var outer []int64
		if p.Outer > 0 {
			outer = []int64{int64(p.Outer)}
		}
		shape := []int64{n, int64(k)}
		if p.Transposed {
			shape = []int64{int64(k), n}
		}
		s.out[nameOf(p, weightOf)] = append(outer, shape...)
		if bias {
			s.out[nameOf(p, biasOf)] = append(slices.Clone(outer), n)
		}
	}
}

// latent adds the tensors of layer i's queries, keys and values in latent attention.
func (s shapes) latent(i int) {
	c, l, t := s.c, s.c.Latent, s.c.Tensors
	q, kv := c.LatentDown(i)
	s.linear([]hf.Slice{kv}, c.Hidden, c.QKVBias)
	s.linear([]hf.Slice{q}, c.Hidden, c.QKVBias && l.QRank != 0)
	s.out[weightOf(t.InLayer(i, t.KVDownNorm))] = []int64{int64(l.Rank)}
	up, both := c.LatentUp(i)
	s.linear([]hf.Slice{both}, l.Rank, false)
	if l.QRank != 0 {
		s.linear([]hf.Slice{up}, l.QRank, false)
		s.out[weightOf(t.InLayer(i, t.QDownNorm))] = []int64{int64(l.QRank)}
	}
}

// experts adds the tensors of layer i's mixture.
func (s shapes) experts(i int) {
	c := s.c
	s.linear([]hf.Slice{c.Router(i)}, c.Hidden, c.Experts.Bias)
	if c.Experts.Corrected {
		shape := []int64{int64(c.Experts.N)}
		if c.Experts.CorrectionRow {
			shape = []int64{1, int64(c.Experts.N)}
		}
		s.out[c.Tensors.InLayer(i, c.Tensors.RouterCorrection)] = shape
	}
	s.linear(c.ExpertGateUp(i), c.Hidden, c.Experts.Bias)
	s.linear(c.ExpertDown(i), c.Experts.Intermediate, c.Experts.Bias)
	if c.Experts.Shared == 0 {
		return
	}
	gate, up, down := c.SharedExpert(i)
	s.linear([]hf.Slice{gate, up}, c.Hidden, false)
	s.linear([]hf.Slice{down}, c.Experts.Shared, false)
	if c.Experts.SharedGate {
		s.linear([]hf.Slice{c.SharedRouter(i)}, c.Hidden, false)
	}
}

// qkNorm adds the tensors of the norm of queries or keys.
func (s shapes) qkNorm(name string, heads int) {
	dim := int64(s.c.HeadDim)
	shape := []int64{dim}
	switch s.c.QKNorm.Over {
	case hf.QKNormNone:
		return
	case hf.QKNormHead:
		if s.c.Norm.Plain {
			return
		}
	case hf.QKNormAll:
		shape = []int64{int64(heads) * dim}
	case hf.QKNormEachHead:
		if strings.Contains(name, "%d") { // a tensor for each head
			for _, one := range eachHead(name, heads) {
				s.out[weightOf(one)] = shape
			}
			return
		}
		shape = []int64{int64(heads), dim}
	}
	s.out[weightOf(name)] = shape
	if s.c.QKNorm.Bias {
		s.out[biasOf(name)] = shape
	}
}

// eachHead names the parts of norms that have tensors for each head.
func eachHead(format string, heads int) []string {
	names := make([]string, heads)
	for i := range names {
		names[i] = fmt.Sprintf(format, i)
	}
	return names
}
