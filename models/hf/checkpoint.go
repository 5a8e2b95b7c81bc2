package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models/gguf"
	"tgi/models/ready"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// Checkpoint is an open model: a folder, or a file in the GGUF format.
type Checkpoint struct {
	// Name is the folder's or the file's own name.
	Name       string
	Config     Config
	Generation GenerationConfig
	Tokenizer  TokenizerConfig
	// TokenizerJSON is the content of tokenizer.json; nil if there is none.
	TokenizerJSON []byte
	// GGUF is the name of the file that holds all of it, or its first part; "" for the other formats.
	GGUF string
	// Ready is the folder's graphs, if it has those in place of weights, and Graph the one that is taken unless another
	// is asked for; nil for the other formats.
	Ready *ready.Folder
	Graph *ready.Graph
	// Coded are the types of the tensors that are blocks of quantised weights, none if there are none.
	Coded []string
	// Tensors holds the weights; nil after Describe.
	Tensors *tensors.Set
	// Sentence says how texts become vectors; nil for a model that generates, or classifies.
	Sentence *Sentence
	// Score says how the model scores a text by a query; nil for the others, and for classes that classify.
	Score *LogitScore
	// stages are the files of tensors of the modules behind the pooling.
	stages []*tensors.Set
	// layout says where that file has the parts.
	layout *ggufLayout
}

// Open reads a model, a folder or a file in the GGUF format, and maps its weights. The caller must Close it.
func Open(at string) (*Checkpoint, error) {
	c, err := Describe(at)
	if err == nil {
		err = prefixed(at, c.OpenWeights(FS(at)))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Describe reads what a model's files say of it, but not the weights.
func Describe(at string) (*Checkpoint, error) {
	abs, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	c, err := describe(FS(at), filepath.Base(abs))
	return c, prefixed(at, err)
}

// OpenFS is Open for a file system, e.g. an embedded folder; name is the model's.
func OpenFS(fsys fs.FS, name string) (*Checkpoint, error) {
	c, err := DescribeFS(fsys, name)
	if err == nil {
		err = prefixed(name, c.OpenWeights(fsys))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DescribeFS is Describe for a file system.
func DescribeFS(fsys fs.FS, name string) (*Checkpoint, error) {
	c, err := describe(fsys, name)
	return c, prefixed(name, err)
}

func prefixed(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// OpenWeights opens the weights of a model that was described, and makes of the files' tensors those that the builders
// know. fsys is what it was described from.
func (c *Checkpoint) OpenWeights(fsys fs.FS) (err error) {
	defer tensors.Guard(&err)()
	if c.Ready != nil {
		return fmt.Errorf("%w: the folder has graphs that are ready to run (%s), and no weights to convert", ErrConfig,
			c.Graph.File)
	}
	var set *tensors.Set
	if c.GGUF != "" {
		f, err := gguf.Open(fsys, c.GGUF)
		if err != nil {
			return err
		}
		set = f.Tensors
	} else {
		var err error
		if set, err = safetensors.OpenFS(fsys); err != nil {
			return err
		}
	}
	err = c.arrange(set)
	if err == nil {
		err = c.openStages(fsys, set)
	}
	if err != nil {
		c.Tensors = set
		return errors.Join(err, c.Close())
	}
	c.Tensors = set
	return nil
}

// openStages adds the tensors of the modules behind the pooling to those of the model.
func (c *Checkpoint) openStages(fsys fs.FS, to *tensors.Set) error {
	if c.Sentence == nil {
		return nil
	}
	for _, s := range c.Sentence.Stages {
		if s.Folder == "" { // among the model's own
			continue
		}
		sub, err := fs.Sub(fsys, strings.TrimSuffix(s.Folder, "/"))
		if err != nil {
			return err
		}
		set, err := safetensors.OpenFS(sub)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Folder, err)
		}
		c.stages = append(c.stages, set)
		for _, name := range set.Names() {
			t, err := set.Tensor(name)
			if err != nil {
				return err
			}
			to.Put(s.Folder+name, t)
		}
	}
	return nil
}

func describe(fsys fs.FS, name string) (*Checkpoint, error) {
	switch file, err := GGUF(fsys); {
	case err != nil:
		return nil, err
	case file != "":
		return describeGGUF(fsys, file, name)
	}
	c := &Checkpoint{Name: name}
	if err := c.describeReady(fsys); err != nil {
		return nil, err
	}
	parse := func(b []byte) (err error) { c.Config, err = ParseConfig(b); return }
	if c.Ready != nil {
		parse = func([]byte) error { return nil }
	}
	steps := []struct {
		file     string
		required bool
		parse    func([]byte) error
	}{
		{ConfigFile, c.Ready == nil, parse},
		{TokenizerFile, false, func(b []byte) error { c.TokenizerJSON = b; return nil }},
		{GenerationFile, false, func(b []byte) (err error) { c.Generation, err = ParseGenerationConfig(b); return }},
		{TokenizerConfigFile, false, func(b []byte) (err error) { c.Tokenizer, err = ParseTokenizerConfig(b); return }},
		{SpecialTokensFile, false, func(b []byte) error { return c.Tokenizer.readSpecialTokens(b) }},
	}
	for _, s := range steps {
		data, err := readFile(fsys, s.file)
		if errors.Is(err, fs.ErrNotExist) && !s.required {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := s.parse(data); err != nil {
			return nil, err
		}
	}
	if err := c.readSentence(fsys); err != nil {
		return nil, err
	}
	if c.TokenizerJSON == nil {
		var err error
		if c.TokenizerJSON, err = otherTokenizer(fsys, &c.Tokenizer); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Config.Experts.Packed:
		c.Coded = []string{string(tensors.MXFP4)}
	case c.Config.Packing.Method != "":
		c.Coded = []string{string(c.Config.Packing.DType())}
	}
	if err := c.Tokenizer.readTemplates(fsys); err != nil {
		return nil, err
	}
	if err := c.checkTemplate(fsys); err != nil {
		return nil, err
	}
	if err := c.checkScored(); err != nil {
		return nil, err
	}
	return c, nil
}

// TensorName returns what a tensor is called in the files, for errors: in a file in the GGUF format otherwise than
// here.
func (c *Checkpoint) TensorName(name string) string {
	if c.layout == nil {
		return name
	}
	return c.layout.original(&c.Config, name)
}

// Files returns the names of the files that a model's graph and weights depend on.
func (c *Checkpoint) Files() []string {
	weights := c.Tensors.Files()
	switch {
	case c.GGUF != "":
		return weights
	case slices.Equal(weights, []string{safetensors.SingleFile}):
		return slices.Concat([]string{ConfigFile}, weights, c.stageFiles())
	default:
		return slices.Concat([]string{ConfigFile}, weights, []string{safetensors.IndexFile}, c.stageFiles())
	}
}

// stageFiles are those that say what becomes of a text's vector.
func (c *Checkpoint) stageFiles() []string {
	if c.Score != nil { // without them the model is one that generates
		return []string{ModulesFile, c.Score.file}
	}
	if c.Sentence == nil {
		return nil
	}
	var out []string
	for _, s := range c.Sentence.Stages {
		out = append(out, s.Folder+ConfigFile, s.Folder+safetensors.SingleFile)
	}
	return out
}

// EOS returns the ids that end a sequence, ascending: the union of those of config.json and
// generation_config.json.
func (c *Checkpoint) EOS() []uint32 {
	ids := slices.Concat(c.Config.EOS, c.Generation.EOS)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Close unmaps the weights.
func (c *Checkpoint) Close() error {
	if c.Tensors == nil {
		return nil
	}
	err := c.Tensors.Close()
	for _, set := range c.stages {
		err = errors.Join(err, set.Close())
	}
	c.stages = nil
	return err
}
