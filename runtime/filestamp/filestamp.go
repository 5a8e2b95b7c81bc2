// Package filestamp tells whether a file changed, without reading it. The plugins' sources, the templates, the settings
// and the certificate are all looked at this way, each by whoever reads it.
package filestamp

import (
	"io/fs"
	"os"
)

// Stamp is what a file looks like from outside: size, time of change and identity. The zero value stands for no file.
type Stamp struct{ info fs.FileInfo }

// Of returns the stamp of the file at path, zero where there is none or nobody may look.
func Of(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// All returns the stamps of the files at paths.
func All(paths []string) []Stamp {
	out := make([]Stamp, len(paths))
	for i, p := range paths {
		out[i] = Of(p)
	}
	return out
}

// Exists reports whether there is a file.
func (s Stamp) Exists() bool { return s.info != nil }

// Same reports whether two stamps are of one file that did not change. Identity is part of it, so that a link that
// leads elsewhere counts as a change.
func (s Stamp) Same(other Stamp) bool {
	a, b := s.info, other.info
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
