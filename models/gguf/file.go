package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"tgi/models/tensors"
)

// Extension is the end of the files' names.
const Extension = ".gguf"

// File is an open file, with all its parts.
type File struct {
	// Metadata are those of the first part, which has all but the numbers of tensors.
	*Metadata
	// Tensors are those of all parts, by their names in the file.
	Tensors *tensors.Set
}

// Close unmaps the file.
func (f *File) Close() error { return f.Tensors.Close() }

// part is the form of the name of a part of a file.
var part = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// Parts returns the names of all parts of a file, given that of one of them, and whether that is the first.
func Parts(name string) (names []string, first bool) {
	m := part.FindStringSubmatch(name)
	if m == nil {
		return []string{name}, true
	}
	n, _ := strconv.Atoi(m[3]) // five digits
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i+1, m[3]))
	}
	return names, m[2] == "00001"
}

// Open maps a file of a folder and its other parts. Files that are not on the disk are read into memory.
func Open(fsys fs.FS, name string) (_ *File, err error) {
	names, first := Parts(name)
	if !first || len(names) == 0 {
		return nil, fmt.Errorf("%s: %w: is not the first part of a file", name, tensors.ErrFormat)
	}
	f := &File{Tensors: &tensors.Set{}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for _, name := range names {
		meta, err := f.add(fsys, name)
		if errors.Is(err, fs.ErrNotExist) && len(names) > 1 {
			return nil, fmt.Errorf("%s, a part of %d: %w", name, len(names), tensors.ErrMissing)
		}
		if err != nil {
			return nil, err
		}
		if f.Metadata == nil {
			f.Metadata = meta
		}
	}
	if n, ok, err := f.Number("split.tensors.count"); err != nil {
		return nil, err
	} else if have := len(f.Tensors.Names()); ok && int(n) != have {
		return nil, fmt.Errorf("%s: %w: the parts have %d tensors, want %d", name, tensors.ErrFormat, have, int(n))
	}
	return f, nil
}

// add maps one part.
func (f *File) add(fsys fs.FS, name string) (*Metadata, error) {
	m, err := tensors.MapFS(fsys, name)
	if err != nil {
		return nil, err
	}
	data := m.Bytes()
	meta, entries, body, err := readHeader(name, data)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	list := make([]*tensors.Tensor, len(entries))
	for i, e := range entries {
		own := data[body+e.at : body+e.at+e.bytes : body+e.at+e.bytes]
		if e.coding.coded == nil {
			list[i] = tensors.New(e.name, e.coding.name, e.shape, name, own)
		} else {
			list[i] = tensors.NewCoded(e.name, e.coding.coded, e.shape, name, own)
		}
	}
	return meta, f.Tensors.Add(name, list, m)
}
