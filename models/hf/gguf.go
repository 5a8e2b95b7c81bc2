package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"tgi/models/gguf"
	"tgi/models/tensors"
)

// ggufModel is a file while its description is made.
type ggufModel struct {
	*gguf.File
	name string
	arch string
	kind ggufKind
	// layout is known once the configuration is.
	layout *ggufLayout
	// ends are the tokens that end a text by what they are called.
	ends []uint32
	err  error
}

// describeGGUF reads the metadata of a file. Files beside it win over them, so that an operator can replace the
// tokenizer, the generation's configuration and templates.
func describeGGUF(fsys fs.FS, file, name string) (c *Checkpoint, err error) {
	defer tensors.Guard(&err)()
	f, err := gguf.Open(fsys, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := &ggufModel{File: f, name: file}
	c = &Checkpoint{Name: strings.TrimSuffix(name, gguf.Extension), GGUF: file}
	c.Config = g.config()
	c.layout = g.layout
	if g.err == nil {
		c.Tokenizer, c.TokenizerJSON = g.tokenizer()
	}
	if g.err != nil {
		return nil, g.err
	}
	c.Coded = g.coded()
	for _, id := range g.ends {
		if int(id) < c.Config.Vocab && !slices.Contains(c.Config.EOS, id) {
			c.Config.EOS = append(c.Config.EOS, id)
		}
	}
	if c.TokenizerJSON, err = readOr(fsys, TokenizerFile, c.TokenizerJSON); err != nil {
		return nil, err
	}
	if data, err := readOr(fsys, GenerationFile, nil); err != nil {
		return nil, err
	} else if data != nil {
		if c.Generation, err = ParseGenerationConfig(data); err != nil {
			return nil, err
		}
	}
	return c, c.Tokenizer.readTemplates(fsys)
}

// coded returns the types of tensors that are blocks of quantised weights, sorted.
func (g *ggufModel) coded() []string {
	var types []string
	for _, name := range g.Tensors.Names() {
		t, err := g.Tensors.Tensor(name)
		if d := string(t.DType); err == nil && t.DType.Size() == 0 && !slices.Contains(types, d) {
			types = append(types, d)
		}
	}
	slices.Sort(types)
	return types
}

// readFile reads a file, but waits for no pipe.
func readFile(fsys fs.FS, file string) ([]byte, error) {
	st, err := fs.Stat(fsys, file)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: is not a regular file", file, ErrConfig)
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(fsys, file)
}

// readOr reads a file, or returns def if there is none.
func readOr(fsys fs.FS, file string, def []byte) ([]byte, error) {
	data, err := readFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return def, nil
	}
	return data, err
}

// quoted shortens a text of a file for an error.
func quoted(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return strconv.Quote(s)
}

// fail records the first error.
func (g *ggufModel) fail(format string, a ...any) {
	g.err = cmp.Or(g.err, fmt.Errorf("%s: %w: %s", g.name, ErrConfig, fmt.Sprintf(format, a...)))
}

// text reads a key of the file, "" if it is absent.
func (g *ggufModel) text(key string) string {
	s, err := g.String(key)
	g.err = cmp.Or(g.err, err)
	return s
}

// number reads a key of the file.
func (g *ggufModel) number(key string) (float64, bool) {
	n, ok, err := g.Number(key)
	g.err = cmp.Or(g.err, err)
	return n, ok
}

// own is number for a key of the architecture, and ownOr has a default.
func (g *ggufModel) own(key string) (float64, bool) { return g.number(g.arch + "." + key) }

func (g *ggufModel) ownOr(key string, def float64) float64 {
	if n, ok := g.own(key); ok {
		return n
	}
	return def
}

func (g *ggufModel) has(tensor string) bool { return g.Tensors.Has(tensor) }

// dim returns a dimension of a tensor, counted from the innermost one; 0 if there is no such tensor or dimension.
func (g *ggufModel) dim(tensor string, i int) int {
	t, err := g.Tensors.Tensor(tensor)
	if err != nil || i >= len(t.Shape) {
		return 0
	}
	return int(t.Shape[len(t.Shape)-1-i])
}

// floats reads a vector.
func (g *ggufModel) floats(tensor string) []float64 {
	t, err := g.Tensors.Tensor(tensor)
	if err != nil {
		return nil
	}
	x := make([]float32, min(t.Len(), maxHeadDim))
	g.err = cmp.Or(g.err, t.Floats(x, 0))
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// config makes the class' config.json out of the metadata, reads it, and changes what the file has in another way.
func (g *ggufModel) config() Config {
	g.arch = g.text("general.architecture")
	kind, ok := ggufKinds[g.arch]
	if g.err != nil {
		return Config{}
	}
	if !ok {
		g.fail("general.architecture: %s is not supported%s", quoted(g.arch), nearest(g.arch, GGUFArchitectures()))
		return Config{}
	}
	if n, _ := g.own("expert_count"); n > 0 && kind.mixture != "" {
		kind.class = kind.mixture
	}
	if n, _ := g.own("attention.sliding_window"); n > 0 && kind.windowed != "" {
		kind.class = kind.windowed
	}
	if kind.choose != nil {
		kind.class = kind.choose(g)
	}
	g.kind = kind
	fam := families[kind.class]
	values := map[string]any{"architectures": []string{kind.class}}
	put := func(key string, v any) {
		if own := fam.keys[key]; own != nil {
			key = own[0]
		}
		values[key] = v
	}
	g.sizes(put, fam)
	g.rope(put, fam)
	if kind.more != nil {
		kind.more(g, put)
	}
	if g.err != nil {
		return Config{}
	}
	o := &object{file: g.name, values: map[string]json.RawMessage{}, read: map[string]bool{}}
	for key, v := range values {
		data, err := json.Marshal(v)
		if err != nil { // infinity or NaN
			g.fail("%s: %v", key, err)
			return Config{}
		}
		o.values[key] = data
	}
	c, err := parseText(o)
	if err != nil {
		g.err = fmt.Errorf("%w (the names are those of %s, which %s is read as)", err, kind.class, g.arch)
		return Config{}
	}
	g.change(&c)
	return c
}

// sizes puts what all architectures have.
func (g *ggufModel) sizes(put func(string, any), fam family) {
	need := func(key, name string) {
		n, ok := g.own(key)
		if !ok {
			g.fail("%s.%s is missing", g.arch, key)
		}
		put(name, n)
	}
	need("embedding_length", "hidden_size")
	need("block_count", "num_hidden_layers")
	if n := g.further(); n > 0 {
		put("num_hidden_layers", g.ownOr("block_count", 0)-n)
		put("num_nextn_predict_layers", n)
	}
	need("context_length", "max_position_embeddings")
	put("num_attention_heads", g.perLayer("attention.head_count", 0))
	put("vocab_size", g.dim("token_embd.weight", 1))
	put("tie_word_embeddings", !g.has("output.weight"))
	if n := g.dim("blk.0.ffn_down.weight", 0); n > 0 {
		put("intermediate_size", n)
	} else {
		put("intermediate_size", g.perLayer("feed_forward_length", 0))
	}
	if !fam.noKVKey && !fam.latent {
		put("num_key_value_heads", g.perLayer("attention.head_count_kv", g.perLayer("attention.head_count", 0)))
	}
	if n, ok := g.own("attention.key_length"); ok && !fam.latent {
		put("head_dim", n)
		if v := g.ownOr("attention.value_length", n); v != n {
			g.fail("%s.attention.value_length: values of %g numbers beside keys of %g are not supported", g.arch, v, n)
		}
	} else if fam.headDim != 0 {
		put("head_dim", nil)
	}
	if causal, ok := g.own("attention.causal"); ok && causal == 0 {
		g.fail("%s.attention.causal: false: only models whose tokens see those before them are supported", g.arch)
	}
	if fam.fixedEps {
		return
	}
	keys := []string{"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}
	if fam.norm.Layer {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if eps, ok := g.own(key); ok {
			put("rms_norm_eps", eps)
			return
		}
	}
	g.fail("%s.%s is missing", g.arch, keys[0])
}

// perLayer reads a number that may be a list with one for each layer, which are the same.
func (g *ggufModel) perLayer(key string, def float64) float64 {
	list, err := g.Numbers(g.arch + "." + key)
	g.err = cmp.Or(g.err, err)
	if len(list) == 0 {
		return def
	}
	if layers := int(g.ownOr("block_count", 0)); g.IsList(g.arch+"."+key) && len(list) != layers {
		g.fail("%s.%s: has %d entries, want one for each of %d layers", g.arch, key, len(list), layers)
	}
	for i, n := range list {
		if n != list[0] {
			g.fail("%s.%s: is %g in layer %d and %g in layer 0, which is not supported", g.arch, key, n, i, list[0])
		}
	}
	return list[0]
}

// headDim is the width of a head.
func (g *ggufModel) headDim() float64 {
	heads := g.perLayer("attention.head_count", 1)
	return g.ownOr("attention.key_length", g.ownOr("embedding_length", 0)/max(heads, 1))
}

// rope puts the rotary embedding.
func (g *ggufModel) rope(put func(string, any), fam family) {
	if fam.noRope {
		return
	}
	p := map[string]any{"rope_type": "default", "rope_theta": g.ownOr("rope.freq_base", 10000)}
	original, stretched := g.own("rope.scaling.original_context_length")
	factor := g.ownOr("rope.scaling.factor", g.ownOr("rope.scale_linear", 0)) // the latter in old files
	kind := g.text(g.arch + ".rope.scaling.type")
	if kind == "" && factor != 0 && factor != 1 { // which llama.cpp takes for it
		kind = "linear"
	}
	switch kind {
	case "", "none":
	case "linear":
		p["rope_type"], p["factor"] = "linear", cmp.Or(factor, 1)
	case "yarn":
		p["rope_type"], p["factor"] = "yarn", cmp.Or(factor, 1)
		if stretched {
			p["original_max_position_embeddings"] = original
		}
		for key, name := range map[string]string{"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
			if n, ok := g.own("rope.scaling." + key); ok {
				p[name] = n
			}
		}
		if n, ok := g.own("rope.scaling.yarn_log_multiplier"); ok && n != 0 {
			p["mscale"], p["mscale_all_dim"] = n, n
		}
	case "longrope":
	default:
		g.fail("%s.rope.scaling.type: %s is not supported, want none, linear, yarn or longrope", g.arch, quoted(kind))
	}
	if short := g.floats("rope_factors_short.weight"); short != nil {
		p["rope_type"], p["short_factor"], p["long_factor"] = "longrope", short, g.floats("rope_factors_long.weight")
		if stretched {
			p["original_max_position_embeddings"] = original
		}
	}
	head := g.headDim()
	switch n, ok := g.own("rope.dimension_count"); {
	case fam.latent: // it says which part of a key is rotated
	case !ok || head == 0:
		if fam.partial != 0 {
			p["partial_rotary_factor"] = 1
		}
	case fam.partial != 0:
		p["partial_rotary_factor"] = n / head
	case n != head:
		g.fail("%s.rope.dimension_count: rotating %g of %g numbers of a head is not supported for this architecture", g.arch,
			n, head)
	}
	if g.kind.rope != nil {
		g.kind.rope(g, p)
	}
	if g.kind.windowRope {
		window := map[string]any{"rope_type": "default", "rope_theta": g.ownOr("rope.freq_base_swa", 10000)}
		put("rope_parameters", map[string]any{slidingAttention: window, fullAttention: p})
		return
	}
	put("rope_parameters", p)
}

// window puts the sliding window: of the layers that the file names, or of all but each n-th.
func (g *ggufModel) window(put func(string, any), n int) {
	w, ok := g.own("attention.sliding_window")
	if !ok || w == 0 {
		put("sliding_window", nil)
		return
	}
	put("sliding_window", w)
	key := g.arch + ".attention.sliding_window_pattern"
	list, err := g.Numbers(key)
	g.err = cmp.Or(g.err, err)
	layers := int(g.ownOr("block_count", 0))
	if len(list) == 1 && !g.IsList(key) {
		n, list = int(list[0]), nil
	}
	if list != nil && len(list) < layers {
		g.fail("%s: has %d entries, want one for each of %d layers", key, len(list), layers)
		return
	}
	types := make([]string, min(layers, maxLayers))
	for i := range types {
		types[i] = slidingAttention
		if list != nil && list[i] == 0 || list == nil && n > 0 && (i+1)%n == 0 {
			types[i] = fullAttention
		}
	}
	put("layer_types", types)
}

// change describes the parts in the way that the file has them.
func (g *ggufModel) change(c *Config) {
	c.Tensors, g.layout = g.names(c.Tensors)
	biased := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return g.has("blk.0." + p + ".bias") })
	}
	c.QKVBias, c.OutBias = biased("attn_q", "attn_qkv", "attn_q_a", "attn_kv_a_mqa"), biased("attn_output")
	c.MLPBias, c.HeadBias = biased("ffn_up"), g.has("output.bias")
	c.Norm.Offset = 0 // it has been added
	if freqs := g.floats("rope_freqs.weight"); freqs != nil && c.Rope.Type == RopeDefault {
		bad := func(f float64) bool { return !(f >= 1e-6 && f <= bigRope) }
		if want := len(c.Rope.Frequencies(c.HeadDim)); len(freqs) != want || slices.ContainsFunc(freqs, bad) {
			g.fail("tensor %q has %d numbers, want %d from 1e-6 to %g", "rope_freqs.weight", len(freqs), want, bigRope)
		}
		c.Rope.Type, c.Rope.Short = RopeLong, freqs
	}
	id := func(key string) []uint32 {
		n, ok := g.number("tokenizer.ggml." + key + "_token_id")
		if !ok || n < 0 || n >= float64(c.Vocab) { // -1 is none
			return nil
		}
		return []uint32{uint32(n)}
	}
	if scale, ok := g.own("attention.scale"); ok && scale > 0 {
		c.Scales.Attention = scale
	}
	for i := range int(g.further()) {
		c.Unused = append(c.Unused, fmt.Sprintf("blk.%d.", c.Layers+i))
	}
	c.BOS, c.EOS = id("bos"), slices.Concat(id("eos"), id("eot"), id("eom"))
}
