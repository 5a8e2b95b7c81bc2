package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the two layouts in a Hugging Face folder.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Set holds the tensors of a checkpoint, from one file or from all shards. Reading is safe for
// concurrent use; Close invalidates every view into it.
type Set struct {
	byName map[string]*Tensor
	names  []string
	files  []string
	closer []func() error
}

// OpenDir maps the weights of a Hugging Face folder: model.safetensors, or
// the shards that model.safetensors.index.json names. It fails when the index
// and the shards disagree in any tensor.
func OpenDir(dir string) (*Set, error) {
	return openFolder(os.DirFS(dir), func(name string) (*file, error) { return openFile(filepath.Join(dir, name)) })
}

// OpenFS is OpenDir for a file system, whose files are read into memory.
func OpenFS(fsys fs.FS) (*Set, error) {
	return openFolder(fsys, func(name string) (*file, error) {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		return parseFile(name, data)
	})
}

// openFolder reads the index, if there is one, and opens its shards.
func openFolder(fsys fs.FS, openOne func(name string) (*file, error)) (_ *Set, err error) {
	s := &Set{byName: map[string]*Tensor{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	index, err := fs.ReadFile(fsys, IndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		f, err := openOne(SingleFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("neither %s nor %s exists: %w", SingleFile, IndexFile, ErrMissing)
		}
		if err != nil {
			return nil, err
		}
		return s, s.add(SingleFile, f)
	}
	if err != nil {
		return nil, err
	}
	weightMap, err := parseIndex(IndexFile, index)
	if err != nil {
		return nil, err
	}
	shards := slices.Sorted(maps.Values(weightMap))
	for _, shard := range slices.Compact(shards) {
		f, err := openOne(shard)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: shard %q: %w", IndexFile, shard, ErrMissing)
		}
		if err != nil {
			return nil, err
		}
		if err := s.add(shard, f); err != nil {
			return nil, err
		}
	}
	return s, s.checkIndex(weightMap)
}

// parseIndex reads weight_map, tensor name to shard. Shard names must be plain
// file names: an index must not reach outside its folder.
func parseIndex(name string, data []byte) (map[string]string, error) {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%s: %w: %s", name, ErrFormat, fmt.Sprintf(format, a...))
	}
	var raw struct {
		WeightMap json.RawMessage `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fail("%v", err)
	}
	if raw.WeightMap == nil {
		return nil, fail("has no weight_map")
	}
	dec := json.NewDecoder(bytes.NewReader(raw.WeightMap))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fail("weight_map is not an object")
	}
	out := map[string]string{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fail("weight_map: %v", err)
		}
		tensor := key.(string) // the decoder only yields string keys here
		var shard string
		if err := dec.Decode(&shard); err != nil {
			return nil, fail("weight_map: tensor %q: shard is not a string", tensor)
		}
		if _, twice := out[tensor]; twice {
			return nil, fail("weight_map: tensor %q appears twice", tensor)
		}
		if shard == "" || shard == "." || shard == ".." || strings.ContainsAny(shard, `/\:`) {
			return nil, fail("weight_map: tensor %q: shard %q is not a plain file name", tensor, shard)
		}
		out[tensor] = shard
	}
	if len(out) == 0 {
		return nil, fail("weight_map is empty")
	}
	return out, nil
}

// add adds a file's tensors.
func (s *Set) add(name string, f *file) error {
	s.closer = append(s.closer, f.release)
	s.files = append(s.files, name)
	for i := range f.tensors {
		t := &f.tensors[i]
		if other, twice := s.byName[t.Name]; twice {
			return fmt.Errorf("%s: %w: tensor %q is also in %s", name, ErrFormat, t.Name, other.File)
		}
		s.byName[t.Name] = t
		s.names = append(s.names, t.Name)
	}
	slices.Sort(s.names)
	return nil
}

// checkIndex verifies that the index and the shards name the same tensors.
func (s *Set) checkIndex(weightMap map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		t, ok := s.byName[name]
		if !ok || t.File != weightMap[name] {
			return fmt.Errorf("%s: %w: tensor %q is not in shard %s", IndexFile, ErrFormat, name, weightMap[name])
		}
	}
	for _, name := range s.names {
		if _, ok := weightMap[name]; !ok {
			return fmt.Errorf("%s: %w: tensor %q of %s is not in weight_map", IndexFile, ErrFormat, name,
				s.byName[name].File)
		}
	}
	return nil
}

// Tensor returns the tensor of that name, or an error that wraps ErrMissing.
func (s *Set) Tensor(name string) (*Tensor, error) {
	t, ok := s.byName[name]
	if !ok {
		return nil, fmt.Errorf("%s: tensor %q: %w", strings.Join(s.files, ", "), name, ErrMissing)
	}
	return t, nil
}

// Has reports whether the set has a tensor of that name.
func (s *Set) Has(name string) bool { _, ok := s.byName[name]; return ok }

// Names returns the names of all tensors in ascending order.
func (s *Set) Names() []string { return s.names }

// Rename gives the tensors the names by which they are found from now on. Tensor.Name stays that of the file. It fails
// with ErrFormat if two would have one name.
func (s *Set) Rename(to func(name string) string) error {
	byName := make(map[string]*Tensor, len(s.byName))
	for _, old := range s.names {
		name := to(old)
		if other, twice := byName[name]; twice {
			return fmt.Errorf("%w: tensors %q and %q are the same part of the model", ErrFormat, other.Name, old)
		}
		byName[name] = s.byName[old]
	}
	s.byName, s.names = byName, slices.Sorted(maps.Keys(byName))
	return nil
}

// Files returns the base names of the files, in order of name.
func (s *Set) Files() []string { return s.files }

// Close unmaps the files. Views from Tensor.Bytes become invalid.
func (s *Set) Close() error {
	var errs []error
	for _, release := range s.closer {
		errs = append(errs, release())
	}
	s.closer = nil
	return errors.Join(errs...)
}

// OpenFile maps a single file.
func OpenFile(path string) (*Set, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := &Set{byName: map[string]*Tensor{}}
	if err := s.add(filepath.Base(path), f); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
