package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tgi/models/gguf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// FS returns the files of the model at a path: of a folder, or a file in the GGUF format with its other parts, as if
// they were alone in a folder.
func FS(path string) fs.FS {
	if st, err := os.Stat(path); err != nil && !IsGGUF(filepath.Base(path)) || err == nil && st.IsDir() {
		return os.DirFS(path)
	}
	names, _ := gguf.Parts(filepath.Base(path))
	return someFiles{os.DirFS(filepath.Dir(path)), names}
}

// someFiles are some files of a folder.
type someFiles struct {
	fs.FS
	names []string
}

// Open implements fs.FS.
func (f someFiles) Open(name string) (fs.File, error) {
	if name != "." && !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

// Stat implements fs.StatFS: without it a file is opened for that, which waits if it is a pipe.
func (f someFiles) Stat(name string) (fs.FileInfo, error) {
	if name != "." && !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(f.FS, name)
}

// ReadDir implements fs.ReadDirFS.
func (f someFiles) ReadDir(name string) (list []fs.DirEntry, err error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	for _, n := range f.names {
		st, err := fs.Stat(f.FS, n)
		if err != nil {
			return list, err
		}
		list = append(list, fs.FileInfoToDirEntry(st))
	}
	return list, nil
}

// GGUF returns the name of the file in the GGUF format that a folder's model is, "" if it has its weights elsewhere: of
// several parts the first. A folder with several such models is refused.
func GGUF(fsys fs.FS) (string, error) {
	for _, name := range []string{safetensors.SingleFile, safetensors.IndexFile, "model.onnx", "onnx"} {
		if _, err := fs.Stat(fsys, name); err == nil {
			return "", nil
		}
	}
	entries, err := fs.ReadDir(fsys, ".")
	if _, one := fsys.(someFiles); one && err != nil {
		return "", err
	}
	if err != nil {
		return "", nil // which reading another file says
	}
	var found []string
	for _, e := range entries {
		if _, first := gguf.Parts(e.Name()); !e.IsDir() && first && IsGGUF(e.Name()) {
			found = append(found, e.Name())
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%w: the folder has %d models in the GGUF format, name the file of one: %s", ErrConfig,
			len(found), strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// IsGGUF reports whether a name is that of a model in the GGUF format, and not of a projector of images beside one.
func IsGGUF(name string) bool {
	base := path.Base(name)
	return strings.EqualFold(path.Ext(base), gguf.Extension) && base[0] != '.' &&
		!strings.HasPrefix(strings.ToLower(base), "mmproj")
}

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
	need("context_length", "max_position_embeddings")
	put("num_attention_heads", g.perLayer("attention.head_count", 0))
	put("vocab_size", g.dim("token_embd.weight", 1))
	put("tie_word_embeddings", !g.has("output.weight"))
	if n := g.dim("blk.0.ffn_down.weight", 0); n > 0 {
		put("intermediate_size", n)
	} else {
		put("intermediate_size", g.perLayer("feed_forward_length", 0))
	}
	if !fam.noKVKey {
		put("num_key_value_heads", g.perLayer("attention.head_count_kv", g.perLayer("attention.head_count", 0)))
	}
	if n, ok := g.own("attention.key_length"); ok {
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
	c.QKVBias, c.OutBias = biased("attn_q", "attn_qkv"), biased("attn_output")
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
	c.BOS, c.EOS = id("bos"), slices.Concat(id("eos"), id("eot"), id("eom"))
}

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
