package library

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/quant"
	"tgi/models/ready"
	"tgi/models/tensors"
)

// Format is the file format of a checkpoint's weights.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	GGUF        Format = "gguf"
	ONNX        Format = "onnx"
)

// Info describes a model. Its slices and maps are shared and must not be changed.
type Info struct {
	Model
	Format Format
	// Architecture is the class that config.json names.
	Architecture string
	Layers       int
	KVHeads      int
	HeadDim      int
	// CacheNumbers is how many numbers the cache holds for a token in a layer.
	CacheNumbers int
	Hidden       int
	Vocab        int
	// Task is what the model is for, Labels the number of a classifier's.
	Task   Task
	Labels int
	// Context is the maximum length of prompt and output together, in tokens.
	Context int
	// Parameters counts the checkpoint's parameters; 0 for ONNX.
	Parameters int64
	// DTypes are the types of the weights on disk, sorted, e.g. BF16.
	DTypes []string
	// Bytes is the size of all files, Files their number.
	Bytes int64
	Files int
	// Tokenizer says that there is a tokenizer.json, without which a model cannot be served.
	Tokenizer bool
	// Templates are the names of the chat templates, sorted; Template is the source of the default one.
	Templates []string
	Template  string
	// Images says that the model reads images.
	Images bool
	// Choices are the formats in which each device can hold the weights, the CPU's first. Those of ONNX are its Graphs.
	Choices []Choice
	// Graphs are the graphs of a folder of the format ONNX, the one first that is taken if none is asked for.
	Graphs []*ready.Graph
	// Modified is when the configuration, or the file in the GGUF format, was last written.
	Modified time.Time
	// Origin is where the library got the model from; nil for folders made by hand.
	Origin *Origin
}

// Task is what a model is for.
type Task int

// Generate continues texts, Embed makes vectors of them, Classify scores.
const (
	Generate Task = iota
	Embed
	Classify
)

// Choice is one format of the weights in a device's memory.
type Choice struct {
	Device  models.Device
	Weights models.Weights
	// Bytes is the size of the matrices in memory. Norms, biases and the rotary tables are
	// not included; they are less than 1 % in practice.
	Bytes int64
}

// Choice returns one of i.Choices; ok is false if the model has no such format on the device.
func (i Info) Choice(d models.Device, w models.Weights) (c Choice, ok bool) {
	n := slices.IndexFunc(i.Choices, func(c Choice) bool { return c.Device == d && c.Weights == w })
	if n < 0 {
		return Choice{}, false
	}
	return i.Choices[n], true
}

// CacheBytes is the size of one token in the KV cache of a device.
func (i Info) CacheBytes(l models.Layout) int64 {
	return l.CacheBytesPerToken(i.Layers, i.CacheNumbers, i.HeadDim)
}

// cachedInfo is an Info with the fingerprint of the files that it was made from.
type cachedInfo struct {
	signature string
	info      Info
}

// Describe reads a model's JSON files and the headers of its weights. The result is cached
// until a file's name, size or time changes. The error wraps ErrNotFound, or ErrUnusable
// with file, key and reason if the model cannot be served.
func (l *Library) Describe(id ID) (Info, error) {
	m, err := l.Find(id)
	if err != nil {
		return Info{}, err
	}
	signature, bytes, files, err := fingerprint(m.FS)
	if err != nil {
		return Info{}, fmt.Errorf("model %s: %w", id, err)
	}
	l.mu.Lock()
	known, ok := l.infos[id]
	l.mu.Unlock()
	if ok && known.signature == signature && known.info.Dir == m.Dir {
		return known.info, nil
	}
	info, err := describe(m)
	if err != nil {
		return Info{}, fmt.Errorf("model %s: %w: %w", id, ErrUnusable, err)
	}
	info.Bytes, info.Files = bytes, files
	l.mu.Lock()
	defer l.mu.Unlock()
	l.infos[id] = cachedInfo{signature, info}
	return info, nil
}

// fingerprint counts a checkpoint's files and bytes. The signature is the same for the same
// files, by name, size and time.
func fingerprint(fsys fs.FS) (signature string, bytes int64, files int, err error) {
	var sig strings.Builder
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.Count(name, "/") >= 2 || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || name == originFile:
			return nil
		}
		st, err := fs.Stat(fsys, name) // follows links, as reading does
		if err != nil || !st.Mode().IsRegular() {
			return nil // a dangling link fails when it is read
		}
		bytes += st.Size()
		files++
		fmt.Fprintf(&sig, "%s\x00%d\x00%d\n", name, st.Size(), st.ModTime().UnixNano())
		return nil
	})
	return sig.String(), bytes, files, err
}

func describe(m Model) (Info, error) {
	ck, err := hf.DescribeFS(m.FS, path.Base(string(m.ID)))
	if err != nil {
		return Info{}, err
	}
	c := ck.Config
	info := Info{
		Model: m, Format: ONNX, Architecture: c.Architecture, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab,
		Context: c.MaxPositions, KVHeads: c.KVHeads, HeadDim: c.HeadDim, CacheNumbers: c.CacheNumbers(),
		Tokenizer: ck.TokenizerJSON != nil, Templates: slices.Sorted(maps.Keys(ck.Tokenizer.ChatTemplates)),
		Template: ck.Tokenizer.ChatTemplates[hf.DefaultTemplate], Images: c.Vision != nil,
	}
	if e := c.Encoder; e != nil {
		info.Task = Embed
		if e.Classifier {
			info.Task, info.Labels = Classify, len(e.Labels)
		}
	}
	if st, err := fs.Stat(m.FS, cmp.Or(ck.GGUF, hf.ConfigFile)); err == nil {
		info.Modified = st.ModTime()
	}
	if data, err := fs.ReadFile(m.FS, originFile); err == nil {
		o := &Origin{}
		if err := json.Unmarshal(data, o); err != nil {
			return Info{}, fmt.Errorf("%s: %w", originFile, err)
		}
		info.Origin = o
	}
	if ck.Ready != nil {
		return info, info.addGraphs(ck.Ready)
	}
	if err := ck.OpenWeights(m.FS); err != nil {
		return Info{}, err
	}
	defer ck.Close()
	set := ck.Tensors
	info.Format = Safetensors
	if ck.GGUF != "" {
		info.Format = GGUF
	}
	tower := int64(0) // bytes of the vision tower, which has 32-bit floats
	for _, name := range set.Names() {
		t, err := set.Tensor(name)
		if err != nil {
			return Info{}, err
		}
		if name == c.Tensors.Head+".weight" && c.Tied { // a copy of the embedding, counted there
			continue
		}
		info.Parameters += int64(t.Len())
		if strings.HasPrefix(name, hf.VisionPrefix) {
			tower += 4 * int64(t.Len())
		}
		if d := string(t.DType); !slices.Contains(info.DTypes, d) {
			info.DTypes = append(info.DTypes, d)
		}
	}
	slices.Sort(info.DTypes)
	for _, d := range []models.Device{models.CPU, models.CUDA} {
		for _, w := range d.Formats() {
			bytes := matrixBytes(c, d, w)
			if d == models.CPU {
				bytes += tower
			}
			info.Choices = append(info.Choices, Choice{d, w, bytes})
		}
		if d == models.CPU && len(ck.Coded) > 0 {
			info.Choices = append(info.Choices, Choice{d, models.Stored, storedBytes(set) + tower})
		}
	}
	return info, nil
}

// addGraphs adds the graphs of a folder that has several, without those that cannot be served; the first one can.
func (i *Info) addGraphs(f *ready.Folder) error {
	for n, v := range f.Variants {
		g, err := f.Read(v)
		if err != nil && n > 0 {
			continue
		}
		if err != nil {
			return err
		}
		i.Graphs = append(i.Graphs, g)
		i.DTypes = append(i.DTypes, g.Weights)
		i.Choices = append(i.Choices, Choice{models.CPU, models.Weights(g.Weights), g.Memory()})
	}
	return nil
}

// storedBytes is matrixBytes for matrices that keep the integers that they have.
func storedBytes(set *tensors.Set) (sum int64) {
	for _, name := range set.Names() {
		t, err := set.Tensor(name)
		if err != nil || len(t.Shape) < 2 || strings.HasPrefix(name, hf.VisionPrefix) {
			continue
		}
		form := t.Form()
		form.Bits = cmp.Or(form.Bits, 8)
		f := quant.Format{Form: form, Block: models.QuantBlock}
		k := t.Shape[len(t.Shape)-1]
		sum += f.PackedBytes(int(int64(t.Len())/max(k, 1)), int(k))
	}
	return sum
}

// matrixBytes is the size of a decoder's matrices on a device in one format, as package decoder
// writes them: quantised rows are whole blocks with a 16-bit scale each, which a CPU reads in groups,
// and an embedding that is not tied to the head has 8 bits in both quantised formats. One that is
// tied is in the file once, and in memory too, except a quantised one on CUDA: look-up and product
// read it in two shapes, for which a GPU gets two copies.
func matrixBytes(c hf.Config, d models.Device, w models.Weights) int64 {
	number, block := int64(models.LayoutOf(d, w, c.HeadDim).DType.Size()), int64(models.QuantBlock)
	blocks := func(k int) int64 { return (int64(k) + block - 1) / block }
	matrix := func(n, k int, bits int64) int64 {
		if !w.Quantised() {
			return number * int64(n) * int64(k)
		}
		if d == models.CPU {
			n = (n + quant.GroupRows - 1) / quant.GroupRows * quant.GroupRows
		}
		return int64(n) * blocks(k) * (block*bits/8 + 2)
	}
	bits := int64(4)
	if w == models.Int8 {
		bits = 8
	}
	sum := matrix(c.Vocab, c.Hidden, bits)
	for i := range c.Layers {
		for _, s := range c.Sizes(i) {
			sum += int64(s.Count) * matrix(s.Rows, s.Cols, bits)
		}
	}
	lookup := bits
	if !c.Tied {
		lookup = 8
	}
	onGPU := d == models.CUDA && w.Quantised()
	if !c.Tied || onGPU {
		sum += matrix(c.Vocab, c.Hidden, lookup)
	}
	if onGPU {
		sum += int64(c.Vocab) * ((blocks(c.Hidden)*lookup + 7) / 8) // zero points of the look-up
	}
	return sum
}
