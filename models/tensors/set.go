package tensors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Set holds the tensors of a checkpoint, of one file or of all. Reading is safe for concurrent use; Close invalidates
// every view into it.
type Set struct {
	byName map[string]*Tensor
	names  []string
	files  []string
	maps   []*Mapping
}

// Add adds a file's tensors, which lie in m. Close closes m, also if Add has failed.
func (s *Set) Add(file string, list []*Tensor, m *Mapping) error {
	if s.byName == nil {
		s.byName = map[string]*Tensor{}
	}
	s.maps = append(s.maps, m)
	s.files = append(s.files, file)
	for _, t := range list {
		if other, twice := s.byName[t.Name]; twice {
			return fmt.Errorf("%s: %w: tensor %q is also in %s", file, ErrFormat, t.Name, other.File)
		}
		s.byName[t.Name] = t
		s.names = append(s.names, t.Name)
	}
	slices.Sort(s.names)
	return nil
}

// Put adds a tensor, or replaces the one of that name.
func (s *Set) Put(name string, t *Tensor) {
	if _, known := s.byName[name]; !known {
		s.names = append(s.names, name)
		slices.Sort(s.names)
	}
	s.byName[name] = t
}

// Remove forgets tensors, if they are there.
func (s *Set) Remove(names ...string) {
	for _, name := range names {
		delete(s.byName, name)
	}
	s.names = slices.DeleteFunc(s.names, func(n string) bool { return slices.Contains(names, n) })
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

// Forget gives back the memory of what was read of the files so far.
func (s *Set) Forget() {
	for _, m := range s.maps {
		m.Forget()
	}
}

// Close unmaps the files. Views from Tensor.Bytes become invalid.
func (s *Set) Close() error {
	var errs []error
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	s.maps = nil
	return errors.Join(errs...)
}
