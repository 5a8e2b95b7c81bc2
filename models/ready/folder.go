// Package ready reads folders that hold a decoder as ONNX graphs which other software made: those of onnx-community (of
// Optimum and transformers.js) and of onnxruntime-genai. It knows the layouts of these folders and what a graph's
// inputs, outputs and operators mean for a server; it runs nothing. It starts no goroutines.
//
// The reasons behind it: docs/rationale/onnx-folders.md.
package ready

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ErrFolder says that a folder's graph or configuration cannot be used.
var ErrFolder = errors.New("unusable ONNX folder")

// The files of a folder.
const (
	ConfigFile = "config.json"
	GenaiFile  = "genai_config.json"
	// Subfolder is where onnx-community has its graphs.
	Subfolder = "onnx"
	extension = ".onnx"
)

// Variant is one of the graphs of a folder, which are the same model with other weights.
type Variant struct {
	// Weights names the form of the weights: what the file's name says behind "model_", or fp32.
	Weights string
	// File is its slash-separated path.
	File string
}

// stems are the names of graphs before the form of their weights, best first. Those of the older kind hold two graphs.
var stems = []string{"model", "decoder_model_merged", "model_merged"}

// order is that in which variants are taken if none is asked for: weights of 4 bits, which a CPU computes fastest, then
// those that lose nothing, then smaller ones. Those whose rows depend on each other come last.
var order = []string{"q4", "fp32", "q4f16", "fp16", "bnb4", "int8", "quantized", "uint8"}

// aliases are other names by which a variant may be asked for, in order of preference.
var aliases = map[string][]string{
	"int4": {"q4", "q4f16", "bnb4"},
	"int8": {"quantized", "uint8"},
	"q8":   {"quantized", "int8"},
}

// Forms are the names of weights that only folders of this kind have. The slice is the caller's.
func Forms() []string { return []string{"q4", "q4f16", "q8", "quantized", "uint8", "bnb4"} }

// Variants returns the graphs among a folder's files, in the order of preference.
func Variants(names []string) []Variant {
	for _, stem := range stems {
		for _, dir := range []string{"", Subfolder + "/"} {
			var list []Variant
			for _, n := range names {
				base, ok := strings.CutPrefix(n, dir+stem)
				form, graph := strings.CutSuffix(base, extension)
				if !ok || !graph || strings.Contains(form, "/") || form != "" && form[0] != '_' {
					continue
				}
				if form = strings.TrimPrefix(form, "_"); form == "" {
					form = "fp32"
				}
				if form == "merged" { // a stem of its own
					continue
				}
				list = append(list, Variant{form, n})
			}
			if len(list) > 0 {
				slices.SortFunc(list, func(a, b Variant) int {
					if d := rank(a.Weights) - rank(b.Weights); d != 0 {
						return d
					}
					return strings.Compare(a.File, b.File)
				})
				return list
			}
		}
	}
	return nil
}

func rank(weights string) int {
	if i := slices.Index(order, weights); i >= 0 {
		return i
	}
	return len(order)
}

// Pick returns the variant of a name, or the first for "".
func Pick(list []Variant, weights string) (Variant, error) {
	if weights == "" {
		return list[0], nil
	}
	for _, want := range append([]string{weights}, aliases[weights]...) {
		if i := slices.IndexFunc(list, func(v Variant) bool { return v.Weights == want }); i >= 0 {
			return list[i], nil
		}
	}
	var have []string
	for _, v := range list {
		have = append(have, v.Weights)
	}
	return Variant{}, fmt.Errorf("weights must be one of those that the folder has, %s, given %q",
		strings.Join(have, ", "), weights)
}

// DataOf returns those of a folder's files that may hold weights of a graph: by convention they have its name with
// something behind it.
func DataOf(names []string, graph string) (out []string) {
	for _, n := range names {
		rest, ok := strings.CutPrefix(n, graph)
		if ok && (strings.HasPrefix(rest, "_data") || strings.HasPrefix(rest, ".data")) {
			out = append(out, n)
		}
	}
	return out
}

// Folder is a folder with graphs.
type Folder struct {
	fsys fs.FS
	// Variants are its graphs, the one first that is taken if none is asked for.
	Variants []Variant
	// Architecture is the class that config.json names, or the type that genai_config.json does.
	Architecture string
	// Context is the longest sequence by the configuration, Vocab the number of logits; 0 if not said.
	Context, Vocab int
	// EOS are the tokens that end a sequence.
	EOS []uint32
	// Heads and Hidden describe the model, KVHeads and HeadDim its cache; 0 if not said.
	Heads, Hidden, KVHeads, HeadDim int
	names                           names
}

// names are those of a graph's inputs and outputs. Those of the cache have %d for the number of a layer.
type names struct {
	ids, mask, positions, logits                 string
	pastKey, pastValue, presentKey, presentValue string
}

var usual = names{"input_ids", "attention_mask", "position_ids", "logits", "past_key_values.%d.key",
	"past_key_values.%d.value", "present.%d.key", "present.%d.value"}

// Open reads the configuration of a folder. It returns nil if the folder has no graphs.
func Open(fsys fs.FS) (*Folder, error) {
	files, err := list(fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{fsys: fsys, Variants: Variants(files), names: usual}
	if slices.Contains(files, GenaiFile) {
		if err := f.readGenai(files); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", GenaiFile, ErrFolder, err)
		}
	}
	if len(f.Variants) == 0 {
		return nil, nil
	}
	if slices.Contains(files, ConfigFile) {
		if err := f.readConfig(); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", ConfigFile, ErrFolder, err)
		}
	}
	if f.Variants[0].Weights == "" {
		g, err := f.Read(f.Variants[0])
		if err != nil {
			return nil, err
		}
		f.Variants[0] = g.Variant
	}
	return f, nil
}

// Has reports whether a folder looks like one with graphs.
func Has(fsys fs.FS) bool {
	files, err := list(fsys)
	return err == nil && len(Variants(files)) > 0 &&
		(slices.Contains(files, ConfigFile) || slices.Contains(files, GenaiFile))
}

// maxFiles bounds the files of a folder that are looked at.
const maxFiles = 100_000

// list returns the files of a folder, and of the one inside it that may hold graphs.
func list(fsys fs.FS) (files []string, err error) {
	for _, dir := range []string{".", Subfolder} {
		entries, err := fs.ReadDir(fsys, dir)
		if dir == Subfolder && err != nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && len(files) < maxFiles {
				files = append(files, path.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}

// maxConfig bounds a configuration.
const maxConfig = 16 << 20

// readJSON reads one of the folder's files.
func (f *Folder) readJSON(name string, to any) error {
	st, err := fs.Stat(f.fsys, name)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	if st.Size() > maxConfig {
		return fmt.Errorf("has %d bytes, at most %d are allowed", st.Size(), maxConfig)
	}
	data, err := fs.ReadFile(f.fsys, name)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// tokens is a token's number, a list of such, or null.
type tokens []uint32

// UnmarshalJSON implements json.Unmarshaler.
func (t *tokens) UnmarshalJSON(data []byte) error {
	var one uint32
	if json.Unmarshal(data, &one) == nil && string(data) != "null" {
		*t = tokens{one}
		return nil
	}
	return json.Unmarshal(data, (*[]uint32)(t))
}

// config is the part of config.json that is read. The graph has all else.
type config struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`
	EOS           tokens   `json:"eos_token_id"`
	Positions     int      `json:"max_position_embeddings"`
	NPositions    int      `json:"n_positions"`
	NCtx          int      `json:"n_ctx"`
	SeqLen        int      `json:"max_seq_len"`
	Vocab         int      `json:"vocab_size"`
	Hidden        int      `json:"hidden_size"`
	NEmbd         int      `json:"n_embd"`
	Heads         int      `json:"num_attention_heads"`
	NHead         int      `json:"n_head"`
	KVHeads       int      `json:"num_key_value_heads"`
	HeadDim       int      `json:"head_dim"`
	Text          *config  `json:"text_config"`
}

// readConfig reads config.json. What genai_config.json said stays.
func (f *Folder) readConfig() error {
	var c config
	if err := f.readJSON(ConfigFile, &c); err != nil {
		return err
	}
	if len(c.Architectures) > 0 {
		f.Architecture = c.Architectures[0]
	}
	if f.Architecture == "" {
		f.Architecture = c.ModelType
	}
	for _, c := range []*config{&c, c.Text} {
		if c == nil {
			continue
		}
		first(&f.Context, c.Positions, c.NPositions, c.NCtx, c.SeqLen)
		first(&f.Vocab, c.Vocab)
		first(&f.Hidden, c.Hidden, c.NEmbd)
		first(&f.Heads, c.Heads, c.NHead)
		first(&f.KVHeads, c.KVHeads)
		first(&f.HeadDim, c.HeadDim)
		f.EOS = append(f.EOS, c.EOS...)
	}
	return f.check()
}

// first sets a number that is 0 to the first of some that is not.
func first(to *int, from ...int) {
	for _, n := range from {
		if *to == 0 {
			*to = n
		}
	}
}

// maxNumber bounds the numbers of a configuration.
const maxNumber = 1 << 28

func (f *Folder) check() error {
	slices.Sort(f.EOS)
	f.EOS = slices.Compact(f.EOS)
	for _, n := range []struct {
		name  string
		value int
	}{{"max_position_embeddings", f.Context}, {"vocab_size", f.Vocab}, {"hidden_size", f.Hidden},
		{"num_attention_heads", f.Heads}, {"num_key_value_heads", f.KVHeads}, {"head_dim", f.HeadDim}} {
		if n.value < 0 || n.value > maxNumber {
			return fmt.Errorf("%s must be from 1 to %d, given %d", n.name, maxNumber, n.value)
		}
	}
	if f.Heads > 0 {
		first(&f.KVHeads, f.Heads)
		first(&f.HeadDim, f.Hidden/f.Heads)
	}
	return nil
}

// genai is the part of genai_config.json that is read.
type genai struct {
	Model struct {
		Type    string `json:"type"`
		Context int    `json:"context_length"`
		Vocab   int    `json:"vocab_size"`
		EOS     tokens `json:"eos_token_id"`
		Decoder *struct {
			File     string            `json:"filename"`
			Hidden   int               `json:"hidden_size"`
			Heads    int               `json:"num_attention_heads"`
			KVHeads  int               `json:"num_key_value_heads"`
			HeadDim  int               `json:"head_size"`
			Inputs   map[string]string `json:"inputs"`
			Outputs  map[string]string `json:"outputs"`
			Pipeline json.RawMessage   `json:"pipeline"`
		} `json:"decoder"`
		Encoder   json.RawMessage `json:"encoder"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"model"`
}

// readGenai reads genai_config.json, which names the graph and its inputs and outputs.
func (f *Folder) readGenai(files []string) error {
	var g genai
	if err := f.readJSON(GenaiFile, &g); err != nil {
		return err
	}
	d := g.Model.Decoder
	switch {
	case d == nil:
		return errors.New("model.decoder is missing")
	case g.Model.Encoder != nil:
		return errors.New("model.encoder: models with an encoder are not served")
	case g.Model.Embedding != nil:
		return errors.New("model.embedding: models whose embeddings are a graph of their own are not served")
	case d.Pipeline != nil:
		return errors.New("model.decoder.pipeline: models of several graphs are not served")
	}
	if d.File == "" {
		d.File = "model.onnx"
	}
	if strings.ContainsAny(d.File, "/\\") || !strings.HasSuffix(d.File, extension) {
		return fmt.Errorf("model.decoder.filename must be the name of a file *.onnx of the folder, given %q", d.File)
	}
	if !slices.Contains(files, d.File) {
		return fmt.Errorf("model.decoder.filename: there is no file %q", d.File)
	}
	f.Variants = []Variant{{"", d.File}} // the graph tells its weights
	f.Architecture, f.Context, f.Vocab, f.EOS = g.Model.Type, g.Model.Context, g.Model.Vocab, g.Model.EOS
	f.Hidden, f.Heads, f.KVHeads, f.HeadDim = d.Hidden, d.Heads, d.KVHeads, d.HeadDim
	for _, n := range []struct {
		table string
		from  map[string]string
		key   string
		to    *string
		layer bool
	}{
		{"inputs", d.Inputs, "input_ids", &f.names.ids, false},
		{"inputs", d.Inputs, "attention_mask", &f.names.mask, false},
		{"inputs", d.Inputs, "position_ids", &f.names.positions, false},
		{"outputs", d.Outputs, "logits", &f.names.logits, false},
		{"inputs", d.Inputs, "past_key_names", &f.names.pastKey, true},
		{"inputs", d.Inputs, "past_value_names", &f.names.pastValue, true},
		{"outputs", d.Outputs, "present_key_names", &f.names.presentKey, true},
		{"outputs", d.Outputs, "present_value_names", &f.names.presentValue, true},
	} {
		name, ok := n.from[n.key]
		if !ok {
			continue
		}
		if n.layer && (strings.Count(name, "%") != 1 || strings.Count(name, "%d") != 1) {
			return fmt.Errorf("model.decoder.%s.%s must hold %%d once, given %q", n.table, n.key, name)
		}
		*n.to = name
	}
	return f.check()
}
