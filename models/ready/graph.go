package ready

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"tgi/models/onnx"
)

// Graph is what a server needs to know of a graph.
type Graph struct {
	Variant
	// Data are the files of its weights beside it, Bytes the size of all of them and the graph.
	Data  []string
	Bytes int64
	// IDs, Mask and Logits name inputs and the output. Positions and Keep do, if the graph has such: the position of
	// each token, and how many of the last positions get logits.
	IDs, Mask, Logits, Positions, Keep string
	// PastKey, PastValue, PresentKey and PresentValue name the cache of each layer.
	PastKey, PastValue, PresentKey, PresentValue []string
	// KVHeads, HeadDim and Vocab are the shape of the cache and of the logits.
	KVHeads, HeadDim, Vocab int
	// MaxPositions is the longest sequence that the graph or the configuration allow.
	MaxPositions int
	// Half says that the cache holds 16-bit floats; else it holds 32-bit ones.
	Half bool
	// InPlace says that each layer's attention can write to the cache that it reads: the operator GroupQueryAttention.
	// Else the graph returns a longer copy.
	InPlace bool
	// Alone says that a run computes one sequence: the graph takes no more, or what it computes for one depends on the
	// others.
	Alone bool
	// ByRun says that what a run computes for a token depends on the other tokens of the run.
	ByRun bool
	// LastOnly says that logits are those of a run's last position.
	LastOnly bool
	// Notes are sentences about what the graph lacks.
	Notes []string
}

// Memory is what the weights take in memory. ONNX Runtime multiplies 16-bit floats as 32-bit ones on a CPU and keeps
// copies of those: graphs of 16-bit floats took up to 2.2 times their files.
func (g *Graph) Memory() int64 {
	if g.Half {
		return 2 * g.Bytes
	}
	return g.Bytes
}

// Layers returns the number of layers.
func (g *Graph) Layers() int { return len(g.PastKey) }

// Read reads the structure of a variant and checks that a server can run it. Its errors name file and field.
func (f *Folder) Read(v Variant) (*Graph, error) {
	g, err := f.read(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", v.File, ErrFolder, err)
	}
	return g, nil
}

func (f *Folder) read(v Variant) (*Graph, error) {
	file, size, err := f.open(v.File)
	if err != nil {
		return nil, err
	}
	g := &Graph{Variant: v, Bytes: size, IDs: f.names.ids, Mask: f.names.mask, Logits: f.names.logits}
	for _, step := range []func(*onnx.File) error{
		func(o *onnx.File) error { return checkOperators(o) },
		func(o *onnx.File) error { return f.readData(g, o) },
		func(o *onnx.File) error { return f.readInputs(g, o) },
		func(o *onnx.File) error { return f.readOutputs(g, o) },
		func(o *onnx.File) error { return f.readAttention(g, o) },
	} {
		if err := step(file); err != nil {
			return nil, err
		}
	}
	g.Weights = cmp.Or(g.Weights, weightsOf(file, g.Half))
	if g.MaxPositions == 0 {
		return nil, fmt.Errorf("neither %s nor the graph says how long sequences may be (max_position_embeddings)", ConfigFile)
	}
	return g, nil
}

// open reads the structure of a graph.
func (f *Folder) open(name string) (*onnx.File, int64, error) {
	st, err := fs.Stat(f.fsys, name)
	switch {
	case err != nil:
		return nil, 0, err
	case !st.Mode().IsRegular(): // opening a pipe would wait
		return nil, 0, fmt.Errorf("is not a regular file")
	}
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	at, ok := file.(io.ReaderAt)
	if !ok {
		return nil, 0, fmt.Errorf("cannot be read at any place")
	}
	o, err := onnx.Read(at, st.Size())
	return o, st.Size(), err
}

// domains are those of operators that ONNX Runtime brings. The empty one is ONNX's own.
var domains = []string{"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}

// checkOperators refuses operators that are not ONNX Runtime's, and those that may run for ever.
func checkOperators(o *onnx.File) error {
	for i, n := range o.Nodes {
		if slices.Contains(o.Functions, [2]string{n.Domain, n.Type}) {
			continue
		}
		switch {
		case !slices.Contains(domains, n.Domain):
			return fmt.Errorf("node %d (%s): the operator %s is of the domain %s, which is not known", i, quoted(n.Name),
				quoted(n.Type), quoted(n.Domain))
		case n.Domain == "" && (n.Type == "Loop" || n.Type == "Scan"):
			return fmt.Errorf("node %d (%s): the operator %s is not served, since it may run for ever", i, quoted(n.Name),
				n.Type)
		}
	}
	return nil
}

// readData finds the files of weights and checks that they have what the graph wants of them.
func (f *Folder) readData(g *Graph, o *onnx.File) error {
	dir := path.Dir(g.File)
	sizes := map[string]int64{}
	for _, t := range o.Tensors {
		if t.Location == "" {
			continue
		}
		name := strings.TrimPrefix(t.Location, "./")
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\:") {
			return fmt.Errorf("tensor %s: external_data leads out of the folder: location %s", quoted(t.Name),
				quoted(t.Location))
		}
		name = path.Join(dir, name)
		size, known := sizes[name]
		if !known {
			st, err := fs.Stat(f.fsys, name)
			if err != nil {
				return fmt.Errorf("tensor %s: its file of weights %s is missing", quoted(t.Name), quoted(name))
			}
			if !st.Mode().IsRegular() {
				return fmt.Errorf("tensor %s: its file of weights %s is not a regular file", quoted(t.Name), quoted(name))
			}
			size = st.Size()
			sizes[name] = size
			g.Data, g.Bytes = append(g.Data, name), g.Bytes+size
		}
		if t.Offset > size || t.Length > size-t.Offset {
			return fmt.Errorf("tensor %s: external_data wants %d bytes at %d of %s, which has %d", quoted(t.Name), t.Length,
				t.Offset, quoted(name), size)
		}
	}
	slices.Sort(g.Data)
	return nil
}

// keepInputs are names of the input that says how many positions get logits.
var keepInputs = []string{"num_logits_to_keep", "logits_to_keep"}

// refusals say why inputs are refused.
var refusals = map[string]string{
	"use_cache_branch":      "which graphs of older exports have: export it anew, or take one without (model.onnx)",
	"inputs_embeds":         "so embeddings are a graph of their own, which is not served",
	"encoder_hidden_states": "so it is a decoder beside an encoder, which is not served",
}

// readInputs finds the inputs that a step has.
func (f *Folder) readInputs(g *Graph, o *onnx.File) error {
	tensors := map[string]bool{}
	for _, t := range o.Tensors {
		tensors[t.Name] = true
	}
	inputs := map[string]onnx.Value{}
	for _, in := range o.Inputs {
		if !tensors[in.Name] { // else it has a value
			inputs[in.Name] = in
		}
	}
	seen := 0
	take := func(name string, rank int, types ...onnx.DType) (v onnx.Value, ok bool, err error) {
		if v, ok = inputs[name]; !ok {
			return v, false, nil
		}
		seen++
		return v, true, checkValue("input", v, rank, types...)
	}
	ids, ok, err := take(g.IDs, 2, onnx.Int64)
	if err == nil && !ok {
		err = fmt.Errorf("the input %s is missing", quoted(g.IDs))
	}
	if err != nil {
		return err
	}
	if n := ids.Dims[1].Size; n > 0 {
		return fmt.Errorf("the input %s takes %d tokens at a time; graphs with a fixed number are not served", quoted(g.IDs), n)
	}
	switch n := ids.Dims[0].Size; {
	case n == 1:
		g.Alone = true
		g.Notes = append(g.Notes, "The graph takes one sequence at a time, so sequences do not share runs.")
	case n > 1:
		return fmt.Errorf("the input %s takes %d sequences at a time; graphs with a fixed number are not served",
			quoted(g.IDs), n)
	}
	if _, ok, err = take(g.Mask, 2, onnx.Int64); err == nil && !ok {
		err = fmt.Errorf("the input %s is missing", quoted(g.Mask))
	}
	if err != nil {
		return err
	}
	if _, ok, err = take(f.names.positions, 2, onnx.Int64); err != nil {
		return err
	} else if ok {
		g.Positions = f.names.positions
	}
	for _, name := range keepInputs {
		if v, ok := inputs[name]; ok {
			if _, _, err := take(name, len(v.Dims), onnx.Int64); err != nil || len(v.Dims) > 0 {
				return fmt.Errorf("the input %s must be a number", quoted(name))
			}
			g.Keep = name
		}
	}
	if err := f.readCache(g, o, take); err != nil {
		return err
	}
	if seen < len(inputs) {
		return f.unknownInput(g, o, tensors)
	}
	return nil
}

// unknownInput says which input is not known.
func (f *Folder) unknownInput(g *Graph, o *onnx.File, tensors map[string]bool) error {
	known := slices.Concat([]string{g.IDs, g.Mask, f.names.positions}, keepInputs, g.PastKey, g.PastValue)
	for _, in := range o.Inputs {
		if tensors[in.Name] || slices.Contains(known, in.Name) {
			continue
		}
		why := refusals[in.Name]
		if why == "" {
			why = "which is not known: the inputs of a decoder are its tokens, their mask and positions, and a cache of keys " +
				"and values"
		}
		return fmt.Errorf("it has the input %s, %s", quoted(in.Name), why)
	}
	return fmt.Errorf("an input is there twice")
}

// maxLayers bounds the layers of a model.
const maxLayers = 1 << 12

// readCache finds the inputs of the cache.
func (f *Folder) readCache(g *Graph, o *onnx.File,
	take func(string, int, ...onnx.DType) (onnx.Value, bool, error)) error {
	outputs := map[string]onnx.Value{}
	for _, out := range o.Outputs {
		outputs[out.Name] = out
	}
	for i := range maxLayers {
		for half, format := range [2][2]string{{f.names.pastKey, f.names.presentKey},
			{f.names.pastValue, f.names.presentValue}} {
			past, present := inLayer(format[0], i), inLayer(format[1], i)
			v, ok, err := take(past, 4, onnx.Float, onnx.Float16)
			switch {
			case err != nil:
				return err
			case !ok && half == 0 && i > 0:
				return nil
			case !ok:
				return fmt.Errorf("the input %s is missing: only graphs with a cache of keys and values are served",
					quoted(past))
			}
			out, ok := outputs[present]
			if !ok {
				return fmt.Errorf("the output %s is missing", quoted(present))
			}
			if err := checkValue("output", out, 4, v.Type); err != nil {
				return err
			}
			if err := f.addCache(g, v, out); err != nil {
				return err
			}
			if half == 0 {
				g.PastKey, g.PresentKey = append(g.PastKey, past), append(g.PresentKey, present)
			} else {
				g.PastValue, g.PresentValue = append(g.PastValue, past), append(g.PresentValue, present)
			}
		}
	}
	return fmt.Errorf("it has %d layers or more", maxLayers)
}

// inLayer puts the number of a layer into a name.
func inLayer(format string, i int) string { return strings.Replace(format, "%d", strconv.Itoa(i), 1) }

// addCache checks an input of the cache [batch, heads, past, dimensions], and what the graph makes of it, against the
// first one. Sizes that the graph leaves open are those of the configuration.
func (f *Folder) addCache(g *Graph, v, out onnx.Value) error {
	heads := cmp.Or(v.Dims[1].Size, out.Dims[1].Size, int64(f.KVHeads))
	dim := cmp.Or(v.Dims[3].Size, out.Dims[3].Size, int64(f.HeadDim))
	switch {
	case heads < 1 || heads > maxLayers || dim < 1 || dim > maxLayers:
		return fmt.Errorf("the input %s has the dimensions %s, and nothing says how many heads of what size there are",
			quoted(v.Name), dimsText(v.Dims))
	case v.Dims[2].Size > 0:
		return fmt.Errorf("the input %s has the dimensions %s; caches of a fixed length are not served", quoted(v.Name),
			dimsText(v.Dims))
	case v.Dims[0].Size > 1:
		return fmt.Errorf("the input %s has the dimensions %s; graphs with a fixed number of sequences are not served",
			quoted(v.Name), dimsText(v.Dims))
	case g.KVHeads == 0:
		g.KVHeads, g.HeadDim, g.Half = int(heads), int(dim), v.Type == onnx.Float16
	case int(heads) != g.KVHeads || int(dim) != g.HeadDim || (v.Type == onnx.Float16) != g.Half:
		return fmt.Errorf("the input %s has the dimensions %s and another shape or type than that of the first layer",
			quoted(v.Name), dimsText(v.Dims))
	}
	return nil
}

// readOutputs checks that the graph has logits and a cache among its outputs.
func (f *Folder) readOutputs(g *Graph, o *onnx.File) error {
	outputs := map[string]onnx.Value{}
	for _, out := range o.Outputs {
		outputs[out.Name] = out
	}
	logits, ok := outputs[g.Logits]
	if !ok {
		return fmt.Errorf("the output %s is missing", quoted(g.Logits))
	}
	if err := checkValue("output", logits, 3, onnx.Float, onnx.Float16); err != nil {
		return err
	}
	g.Vocab = int(logits.Dims[2].Size)
	if g.Vocab == 0 {
		g.Vocab = f.Vocab
	}
	if g.Vocab < 1 || g.Vocab > maxNumber {
		return fmt.Errorf("neither %s nor the graph's output %s says how many tokens there are (vocab_size)", ConfigFile,
			quoted(g.Logits))
	}
	if g.LastOnly = logits.Dims[1].Size == 1; g.LastOnly {
		g.Notes = append(g.Notes, LastOnlyNote)
	}
	return nil
}

// LastOnlyNote says that a graph lacks the logits of a prompt.
const LastOnlyNote = "The graph gives logits of the last position alone, so there are no log-probabilities of prompts " +
	"(decoder_input_details, echo)."

// attention is the operator that can write its cache in place.
const attention = "GroupQueryAttention"

// readAttention finds out how the graph's attention reads the cache.
func (f *Folder) readAttention(g *Graph, o *onnx.File) error {
	reads := map[string][]*onnx.Op{}
	fused, depends := 0, ""
	sizes := map[string]int64{}
	for _, t := range o.Tensors {
		if len(t.Dims) > 0 {
			sizes[t.Name] = t.Dims[0]
		}
	}
	context := f.Context
	for i := range o.Nodes {
		n := &o.Nodes[i]
		for _, in := range n.Inputs {
			reads[in] = append(reads[in], n)
		}
		table := -1
		switch {
		case n.Domain == "com.microsoft" && n.Type == attention:
			fused++ // also with sliding_window_cache, which evicts nothing from a cache of full length
			table = 7
		case n.Domain == "com.microsoft" && n.Type == "RotaryEmbedding":
			table = 2
		case n.Type == "DynamicQuantizeLinear" || n.Type == "DynamicQuantizeMatMul":
			depends = n.Type
		}
		if table >= 0 && table < len(n.Inputs) {
			if rows := sizes[n.Inputs[table]]; rows > 0 && rows < maxNumber && (context == 0 || int(rows) < context) {
				context = int(rows)
			}
		}
	}
	if f.Context > 0 && context < f.Context {
		g.Notes = append(g.Notes, fmt.Sprintf("The graph has rotary tables of %d positions, fewer than the %d of its "+
			"configuration: longer requests are refused.", context, f.Context))
	}
	g.MaxPositions = context
	g.ByRun = depends != ""
	if g.ByRun && !g.Alone {
		g.Alone = true
		g.Notes = append(g.Notes, fmt.Sprintf("The graph rounds activations by the largest of a run (%s): each sequence gets "+
			"runs of its own, and its tokens depend on how its prompt is cut into steps.", depends))
	}
	g.InPlace = fused > 0
	for i := range g.PastKey {
		if !g.inPlace(i, reads) {
			g.InPlace = false
		}
	}
	switch {
	case g.InPlace:
	case fused > 0:
		return fmt.Errorf("only some layers read the cache by %s alone: such graphs are not served", attention)
	case g.Positions == "" && !g.Alone:
		g.Notes = append(g.Notes, "The graph takes no position_ids, so only sequences of equal length share a run.")
	}
	if !g.InPlace {
		g.Notes = append(g.Notes, "The graph returns a copy of the cache ("+attention+" would write it in place), so each step "+
			"copies the cache of its sequences.")
	}
	return nil
}

// inPlace reports whether layer i's cache is read by one GroupQueryAttention, which returns the new one, and nothing
// else.
func (g *Graph) inPlace(i int, reads map[string][]*onnx.Op) bool {
	k, v := reads[g.PastKey[i]], reads[g.PastValue[i]]
	if len(k) != 1 || len(v) != 1 || k[0] != v[0] {
		return false
	}
	n := k[0]
	return n.Type == attention && n.Depth == 0 && len(n.Inputs) > 6 && len(n.Outputs) > 2 &&
		n.Inputs[3] == g.PastKey[i] && n.Inputs[4] == g.PastValue[i] &&
		n.Outputs[1] == g.PresentKey[i] && n.Outputs[2] == g.PresentValue[i]
}

// weightsOf names the form of the weights by the operators and types.
func weightsOf(o *onnx.File, half bool) string {
	name, bits := "fp32", int64(0)
	for _, n := range o.Nodes {
		switch n.Type {
		case "MatMulNBits":
			bits = max(bits, n.Ints["bits"], 4)
		case "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger":
			return "int8"
		}
	}
	if half {
		name = "fp16"
	}
	switch {
	case bits > 4:
		return "int8"
	case bits > 0 && half:
		return "q4f16"
	case bits > 0:
		return "q4"
	}
	return name
}

// checkValue checks rank and type of an input or output.
func checkValue(what string, v onnx.Value, rank int, types ...onnx.DType) error {
	if !slices.Contains(types, v.Type) {
		var names []string
		for _, t := range types {
			names = append(names, typeName(t))
		}
		return fmt.Errorf("the %s %s is of the type %s, want %s", what, quoted(v.Name), typeName(v.Type),
			strings.Join(names, " or "))
	}
	if v.Open || len(v.Dims) != rank {
		return fmt.Errorf("the %s %s has the dimensions %s, want %d of them", what, quoted(v.Name), dimsText(v.Dims), rank)
	}
	for _, d := range v.Dims {
		if d.Size < 0 {
			return fmt.Errorf("the %s %s has the dimensions %s", what, quoted(v.Name), dimsText(v.Dims))
		}
	}
	return nil
}

var typeNames = map[onnx.DType]string{0: "no tensor", onnx.Float: "float", onnx.Uint8: "uint8", 3: "int8",
	onnx.Int32: "int32", onnx.Int64: "int64", 9: "bool", onnx.Float16: "float16", onnx.BFloat16: "bfloat16"}

func typeName(t onnx.DType) string { return cmp.Or(typeNames[t], "number "+strconv.Itoa(int(t))) }

func dimsText(dims []onnx.Dim) string {
	var parts []string
	for _, d := range dims {
		if d.Size == 0 {
			parts = append(parts, cmp.Or(d.Name, "?"))
		} else {
			parts = append(parts, strconv.FormatInt(d.Size, 10))
		}
	}
	return quoted("[" + strings.Join(parts, ", ") + "]")
}

// quoted shortens a text of a file for an error.
func quoted(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "..."
	}
	return strconv.Quote(s)
}
