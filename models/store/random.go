package store

import (
	"errors"
	"fmt"
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
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return dir, nil
	}
	tmp := dir + fmt.Sprintf(".%d", os.Getpid())
	if err := synth.Write(tmp, shape, 1); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, os.Rename(tmp, dir)
}
