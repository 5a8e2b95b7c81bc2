package ort

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tgi/runtime/ort/fetch"
)

// remedy ends every error about an unusable library.
const remedy = "run `make ort`, or set TGI_ORT_LIB or [runtime] ort_lib to the path of the library"

// Locate returns the path of the ONNX Runtime library: the first of explicit (the setting
// [runtime] ort_lib), the environment variable TGI_ORT_LIB, a library beside the running
// program, and the library that `make ort` put into the cache folder. A path that is set but
// does not exist is an error. Errors wrap ErrLibrary.
func Locate(explicit string) (string, error) {
	named := []struct{ from, path string }{
		{"[runtime] ort_lib", explicit},
		{"TGI_ORT_LIB", os.Getenv("TGI_ORT_LIB")},
	}
	for _, n := range named {
		if n.path == "" {
			continue
		}
		if err := isFile(n.path); err != nil {
			return "",
				fmt.Errorf("%w: %s names %s, which cannot be read (%v): correct it, or remove it and run `make ort`",
					ErrLibrary, n.from, n.path, err)
		}
		return n.path, nil
	}
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), fetch.LibraryName())
		if isFile(beside) == nil {
			return beside, nil
		}
	}
	cached, err := fetch.LibraryPath()
	if err != nil {
		return "", fmt.Errorf("%w: %v: %s", ErrLibrary, err, remedy)
	}
	if err := isFile(cached); err != nil {
		return "", fmt.Errorf("%w: none is installed in %s: %s", ErrLibrary, filepath.Dir(cached), remedy)
	}
	return cached, nil
}

// isFile returns an error if path is not a readable file.
func isFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return pe.Err
		}
		return err
	}
	if info.IsDir() {
		return errors.New("it is a directory")
	}
	return nil
}
