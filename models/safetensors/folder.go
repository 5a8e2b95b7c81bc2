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

	"tgi/models/tensors"
)

// Names of the two layouts in a Hugging Face folder.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// OpenDir is OpenFS for a folder.
func OpenDir(dir string) (*tensors.Set, error) { return OpenFS(os.DirFS(dir)) }

// OpenFS opens the weights of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json
// names. Files on the disk are mapped, others read into memory. It fails when the index and the shards disagree in any
// tensor.
func OpenFS(fsys fs.FS) (*tensors.Set, error) {
	return openFolder(fsys, func(name string) (*file, error) {
		m, err := tensors.MapFS(fsys, name)
		if err != nil {
			return nil, err
		}
		return newFile(name, m)
	})
}

// openFolder reads the index, if there is one, and opens its shards.
func openFolder(fsys fs.FS, openOne func(name string) (*file, error)) (_ *tensors.Set, err error) {
	s := new(tensors.Set)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	index, err := fs.ReadFile(fsys, IndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		f, err := openOne(SingleFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("neither %s nor %s exists: %w", SingleFile, IndexFile, tensors.ErrMissing)
		}
		if err != nil {
			return nil, err
		}
		return s, s.Add(SingleFile, f.tensors, f.mapping)
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
			return nil, fmt.Errorf("%s: shard %q: %w", IndexFile, shard, tensors.ErrMissing)
		}
		if err != nil {
			return nil, err
		}
		if err := s.Add(shard, f.tensors, f.mapping); err != nil {
			return nil, err
		}
	}
	return s, checkIndex(s, weightMap)
}

// parseIndex reads weight_map, tensor name to shard. Shard names must be plain
// file names: an index must not reach outside its folder.
func parseIndex(name string, data []byte) (map[string]string, error) {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%s: %w: %s", name, tensors.ErrFormat, fmt.Sprintf(format, a...))
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

// checkIndex verifies that the index and the shards name the same tensors.
func checkIndex(s *tensors.Set, weightMap map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		t, err := s.Tensor(name)
		if err != nil || t.File != weightMap[name] {
			return fmt.Errorf("%s: %w: tensor %q is not in shard %s", IndexFile, tensors.ErrFormat, name,
				weightMap[name])
		}
	}
	for _, name := range s.Names() {
		if _, ok := weightMap[name]; ok {
			continue
		}
		t, err := s.Tensor(name)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s: %w: tensor %q of %s is not in weight_map", IndexFile, tensors.ErrFormat, name, t.File)
	}
	return nil
}

// OpenFile maps a single file.
func OpenFile(path string) (*tensors.Set, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := new(tensors.Set)
	if err := s.Add(filepath.Base(path), f.tensors, f.mapping); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
