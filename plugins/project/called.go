package project

import "path/filepath"

// CalledFrom is how who is in the folder dir calls a program that was called as name: by its path, or without one if it
// was called without.
func CalledFrom(name, dir string) string {
	if name == filepath.Base(name) || filepath.IsAbs(name) {
		return name
	}
	here, err := filepath.Abs(dir)
	if err != nil {
		return name
	}
	there, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	path, err := filepath.Rel(here, there)
	if err != nil {
		return name
	}
	return path
}
