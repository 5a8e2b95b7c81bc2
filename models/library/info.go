package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
)

// Format is the file format of a checkpoint's weights.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	ONNX        Format = "onnx"
)

// Info describes a model. Its slices and maps are shared and must not be changed.
type Info struct {
	Model
	Format Format
	// Architecture is the class that config.json names.
	Architecture string
	Layers       int
	Hidden       int
	Vocab        int
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
	// Templates are the names of the chat templates, sorted.
	Templates []string
	// Choices are the formats in which the weights can be held in memory; none for ONNX.
	Choices []Choice
	// CacheBytes is the size of one token in the KV cache, in 32-bit floats.
	CacheBytes int64
	// Modified is when the configuration was last written.
	Modified time.Time
	// Origin is where the library got the model from; nil for folders made by hand.
	Origin *Origin
}

// Choice is one format of the weights in memory.
type Choice struct {
	Weights models.Weights
	// Bytes is the size of the matrices in memory. Norms, biases and the rotary tables are
	// not included; they are less than 1 % in practice.
	Bytes int64
}

// Choice returns one of i.Choices; ok is false if the model has no such format.
func (i Info) Choice(w models.Weights) (c Choice, ok bool) {
	n := slices.IndexFunc(i.Choices, func(c Choice) bool { return c.Weights == w })
	if n < 0 {
		return Choice{}, false
	}
	return i.Choices[n], true
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
		Context:   c.MaxPositions,
		Tokenizer: ck.TokenizerJSON != nil, Templates: slices.Sorted(maps.Keys(ck.Tokenizer.ChatTemplates)),
		CacheBytes: 2 * 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim),
	}
	if st, err := fs.Stat(m.FS, hf.ConfigFile); err == nil {
		info.Modified = st.ModTime()
	}
	if data, err := fs.ReadFile(m.FS, originFile); err == nil {
		o := &Origin{}
		if err := json.Unmarshal(data, o); err != nil {
			return Info{}, fmt.Errorf("%s: %w", originFile, err)
		}
		info.Origin = o
	}
	set, err := openWeights(m)
	if errors.Is(err, safetensors.ErrMissing) && slices.ContainsFunc(onnxGraphs, func(g string) bool {
		_, err := fs.Stat(m.FS, g)
		return err == nil
	}) {
		return info, nil
	}
	if err != nil {
		return Info{}, err
	}
	defer set.Close()
	info.Format = Safetensors
	for _, name := range set.Names() {
		t, err := set.Tensor(name)
		if err != nil {
			return Info{}, err
		}
		if name == "lm_head.weight" && c.Tied { // a copy of the embedding, counted there
			continue
		}
		info.Parameters += int64(t.Len())
		if d := string(t.DType); !slices.Contains(info.DTypes, d) {
			info.DTypes = append(info.DTypes, d)
		}
	}
	slices.Sort(info.DTypes)
	for _, w := range []models.Weights{models.FP32, models.Int8, models.Int4} {
		info.Choices = append(info.Choices, Choice{w, matrixBytes(c, w)})
	}
	return info, nil
}

func openWeights(m Model) (*safetensors.Set, error) {
	if m.Dir != "" {
		return safetensors.OpenDir(m.Dir) // maps: only headers are read
	}
	return safetensors.OpenFS(m.FS)
}

// quantBlock is how many weights share a scale in the formats of package models.
const quantBlock = 128

// matrixBytes is the size of a decoder's matrices in one format, as package decoder writes
// them: quantised rows are whole blocks with a 32-bit scale each, and an embedding that is
// not tied to the head has 8 bits in both quantised formats.
func matrixBytes(c hf.Config, w models.Weights) int64 {
	matrix := func(n, k int, bits int64) int64 {
		if w == models.FP32 {
			return 4 * int64(n) * int64(k)
		}
		blocks := int64((k + quantBlock - 1) / quantBlock)
		return int64(n) * blocks * (quantBlock*bits/8 + 4)
	}
	bits := int64(4)
	if w == models.Int8 {
		bits = 8
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	layer := matrix(q+2*kv, c.Hidden, bits) + matrix(c.Hidden, q, bits) +
		matrix(2*c.Intermediate, c.Hidden, bits) + matrix(c.Hidden, c.Intermediate, bits)
	sum := int64(c.Layers) * layer
	if c.Tied {
		return sum + matrix(c.Vocab, c.Hidden, bits)
	}
	return sum + matrix(c.Vocab, c.Hidden, 8) + matrix(c.Vocab, c.Hidden, bits)
}
