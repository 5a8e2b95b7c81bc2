package hf

import (
	"fmt"
	"strings"

	"tgi/models/tensors"
)

// ggufLayout says where a file has the parts of a model.
type ggufLayout struct {
	// layer and whole map the names of parts of a layer, and of those outside, to those in the class' checkpoints.
	layer, whole map[string]string
	// pairs is that of ggufKind.
	pairs bool
}

// names returns where a class' parts are in the file once it was rearranged.
func (g *ggufModel) names(t Tensors) (Tensors, *ggufLayout) {
	in := func(part string) bool { return g.has("blk.0." + part + ".weight") }
	l := &ggufLayout{layer: map[string]string{}, whole: map[string]string{}, pairs: g.kind.pairs}
	// at says that a part of the class is under a name in the file. One that the class has otherwise keeps that.
	at := func(names map[string]string, part *string, own string) {
		switch {
		case own == "":
			*part = ""
			return
		case *part == "" || strings.Contains(*part, "%d"):
			*part = own
		}
		names[own] = *part
	}
	// if the class has the part
	same := func(names map[string]string, part *string, own string) {
		if *part != "" {
			at(names, part, own)
		}
	}
	same(l.whole, &t.Embed, "token_embd")
	same(l.whole, &t.Positions, "position_embd")
	same(l.whole, &t.EmbedNorm, "token_embd_norm")
	same(l.whole, &t.Norm, "output_norm")
	same(l.whole, &t.Head, "output")
	attnNorm, mlpNorm := "attn_norm", "ffn_norm"
	switch {
	case in("ffn_norm"):
	case in("attn_norm_2"): // Falcon's
		attnNorm, mlpNorm = "attn_norm_2", "attn_norm"
	case t.AttnPost == "": // gpt-oss and Seed-OSS, by the name in their checkpoints
		mlpNorm = "post_attention_norm"
	}
	same(l.layer, &t.AttnNorm, attnNorm)
	same(l.layer, &t.MLPNorm, mlpNorm)
	same(l.layer, &t.AttnPost, "post_attention_norm")
	same(l.layer, &t.MLPPost, "post_ffw_norm")
	if in("attn_qkv") {
		at(l.layer, &t.QKV, "attn_qkv")
	} else {
		t.QKV = ""
		at(l.layer, &t.Q, "attn_q")
		at(l.layer, &t.K, "attn_k")
		at(l.layer, &t.V, "attn_v")
	}
	same(l.layer, &t.QDown, "attn_q_a")
	same(l.layer, &t.QUp, "attn_q_b")
	same(l.layer, &t.QDownNorm, "attn_q_a_norm")
	same(l.layer, &t.KVDown, "attn_kv_a_mqa")
	same(l.layer, &t.KVUp, "attn_kv_b")
	same(l.layer, &t.KVDownNorm, "attn_kv_a_norm")
	same(l.layer, &t.RouterCorrection, "exp_probs_b.bias")
	same(l.layer, &t.QNorm, "attn_q_norm")
	same(l.layer, &t.KNorm, "attn_k_norm")
	same(l.layer, &t.Out, "attn_output")
	same(l.layer, &t.Sinks, "attn_sinks.weight")
	if t.GateUp != "" && !in("ffn_gate") {
		at(l.layer, &t.GateUp, "ffn_up")
	} else {
		t.GateUp = ""
		at(l.layer, &t.Gate, "ffn_gate")
		at(l.layer, &t.Up, "ffn_up")
	}
	at(l.layer, &t.Down, "ffn_down")
	if t.Router != "" {
		t.ExpertGateUp, t.ExpertsBare = "", false
		at(l.layer, &t.Router, "ffn_gate_inp")
		at(l.layer, &t.ExpertGate, "ffn_gate_exps")
		at(l.layer, &t.ExpertUp, "ffn_up_exps")
		at(l.layer, &t.ExpertDown, "ffn_down_exps")
	}
	same(l.layer, &t.SharedGate, "ffn_gate_shexp")
	same(l.layer, &t.SharedUp, "ffn_up_shexp")
	same(l.layer, &t.SharedDown, "ffn_down_shexp")
	same(l.layer, &t.SharedRouter, "ffn_gate_inp_shexp")
	t.QKVByHead, t.Transposed = false, false
	return t, l
}

// arrange gives the tensors of a file the names and the order of rows that the class' checkpoints have, and removes
// those that the configuration has taken in.
func (l *ggufLayout) arrange(c *Config, set *tensors.Set) error {
	set.Remove("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
	for i := range c.Layers {
		at := fmt.Sprintf("blk.%d.", i)
		if name := at + "ffn_gate_inp_shexp.weight"; set.Has(name) { // a matrix of one row
			t, err := set.Tensor(name)
			if err != nil {
				return err
			}
			set.Put(name, t.Reshaped(1, int64(t.Len())))
		}
		if c.Latent.Rank != 0 {
			if err := joinLatent(c, set, at); err != nil {
				return err
			}
		}
		if !l.pairs {
			continue
		}
		for _, name := range []string{"attn_q.weight", "attn_k.weight", "attn_q.bias", "attn_k.bias"} {
			if !set.Has(at + name) {
				continue
			}
			t, err := set.Tensor(at + name)
			if err != nil {
				return err
			}
			if len(t.Shape) == 0 || t.Shape[0]%int64(c.HeadDim) != 0 {
				return fmt.Errorf("%s: %w: tensor %q has shape %v, want rows of heads of %d", t.File, tensors.ErrFormat, t.Name,
					t.Shape, c.HeadDim)
			}
			set.Put(at+name, t.Reordered(halves(c.HeadDim)))
		}
	}
	return set.Rename(func(name string) string {
		to := c.Tensors.Whole
		names, rest := l.whole, name
		var layer int
		if n, _ := fmt.Sscanf(name, "blk.%d.", &layer); n == 1 {
			names, rest = l.layer, name[len(fmt.Sprintf("blk.%d.", layer)):]
			to = func(part string) string { return c.Tensors.InLayer(layer, part) }
		}
		if own, ok := names[rest]; ok {
			return to(own)
		}
		part, end := rest, ""
		if i := strings.LastIndexByte(rest, '.'); i >= 0 {
			part, end = rest[:i], rest[i:]
		}
		if own, ok := names[part]; ok {
			return to(own) + end
		}
		return name
	})
}

// original returns what a tensor of the class' checkpoints is called in the file.
func (l *ggufLayout) original(c *Config, name string) string {
	part, end := name, ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		part, end = name[:i], name[i:]
	}
	for own, class := range l.whole {
		if c.Tensors.Whole(class) == part {
			return own + end
		}
	}
	for i := range c.Layers {
		rest, ok := strings.CutPrefix(part, c.Tensors.InLayer(i, ""))
		for own, class := range l.layer {
			if ok && class == rest {
				return fmt.Sprintf("blk.%d.%s%s", i, own, end)
			}
		}
	}
	return name
}

// halves returns which row of a head that rotates rows beside each other is row i of one that rotates its first half
// with its second.
func halves(dim int) func(i int) int {
	return func(i int) int {
		head, k := i/dim, i%dim
		return head*dim + k%(dim/2)*2 + k/(dim/2)
	}
}
