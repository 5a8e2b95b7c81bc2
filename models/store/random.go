package store

import (
	"errors"
	"os"
	"path/filepath"

	"tgi/models/synth"
)

// Random returns the folder of a random checkpoint in the cache, writing it
// the first time.
func Random(shape string) (string, error) {
	cache, err := Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(cache), "synth", shape)
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), tempPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // gone already if it was renamed
	if err := errors.Join(os.Chmod(tmp, 0o755), synth.Write(tmp, shape, 1)); err != nil {
		return "", err
	}
	return dir, keepFirst(tmp, dir)
}

// keepFirst renames a finished checkpoint to its place, unless another process was faster.
func keepFirst(tmp, dir string) error {
	if err := os.Rename(tmp, dir); err != nil && !complete(dir) {
		return err
	}
	return nil
}

// complete reports whether a random checkpoint is there.
func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "config.json"))
	return err == nil
}
