package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// Checkpoint is an open model folder.
type Checkpoint struct {
	// Name is the folder's own name.
	Name       string
	Config     Config
	Generation GenerationConfig
	Tokenizer  TokenizerConfig
	// TokenizerJSON is the content of tokenizer.json; nil if there is none.
	TokenizerJSON []byte
	// Tensors holds the weights; nil after Describe.
	Tensors *tensors.Set
}

// Open reads a folder and maps its weights. The caller must Close the checkpoint.
func Open(dir string) (*Checkpoint, error) {
	c, err := Describe(dir)
	if err != nil {
		return nil, err
	}
	if c.Tensors, err = safetensors.OpenDir(dir); err == nil {
		err = c.Arrange()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// Describe reads the JSON files of a folder, but not the weights.
func Describe(dir string) (*Checkpoint, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c, err := describe(os.DirFS(dir), filepath.Base(abs))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// OpenFS is Open for a file system, e.g. an embedded folder; name is the model's.
func OpenFS(fsys fs.FS, name string) (*Checkpoint, error) {
	c, err := DescribeFS(fsys, name)
	if err != nil {
		return nil, err
	}
	if c.Tensors, err = safetensors.OpenFS(fsys); err == nil {
		err = c.Arrange()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// DescribeFS is Describe for a file system.
func DescribeFS(fsys fs.FS, name string) (*Checkpoint, error) {
	c, err := describe(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func describe(fsys fs.FS, name string) (*Checkpoint, error) {
	c := &Checkpoint{Name: name}
	steps := []struct {
		file     string
		required bool
		parse    func([]byte) error
	}{
		{ConfigFile, true, func(b []byte) (err error) { c.Config, err = ParseConfig(b); return }},
		{TokenizerFile, false, func(b []byte) error { c.TokenizerJSON = b; return nil }},
		{GenerationFile, false, func(b []byte) (err error) { c.Generation, err = ParseGenerationConfig(b); return }},
		{TokenizerConfigFile, false, func(b []byte) (err error) { c.Tokenizer, err = ParseTokenizerConfig(b); return }},
		{SpecialTokensFile, false, func(b []byte) error { return c.Tokenizer.readSpecialTokens(b) }},
	}
	for _, s := range steps {
		data, err := fs.ReadFile(fsys, s.file)
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
	if err := c.Tokenizer.readTemplates(fsys); err != nil {
		return nil, err
	}
	return c, nil
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
	return c.Tensors.Close()
}
