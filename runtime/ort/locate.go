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
const remedy = "a release has the library beside the program, the source tree fetches it by `make ort`; or set " +
	"TGI_ORT_LIB or [runtime] ort_lib to its path"

// Locate returns the path of the ONNX Runtime library: the first of explicit (the setting
// [runtime] ort_lib), the environment variable TGI_ORT_LIB, a library beside the running
// program, and the library that `make ort` put into the cache folder. A path that is set but
// does not exist is an error. Errors wrap ErrLibrary.
func Locate(explicit string) (string, error) {
	path, err := named(explicit, "make ort")
	if path != "" || err != nil {
		return path, err
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

// named returns the library that the setting or the environment names, "" if neither does. command installs one.
func named(explicit, command string) (string, error) {
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
				fmt.Errorf("%w: %s names %s, which cannot be read (%v): correct it, or remove it and run `%s`", ErrLibrary,
					n.from, n.path, err, command)
		}
		return n.path, nil
	}
	return "", nil
}

// providerLibrary lies beside the library of the GPU build, which opens it from its own folder.
const providerLibrary = "libonnxruntime_providers_cuda.so"

// remedyGPU ends every error about the GPU build.
const remedyGPU = "run `make ort-cuda` or `tgi doctor --fetch cuda` (729 MB), or set [runtime] device = \"cpu\""

// LocateGPU returns the path of the GPU build's library and its folder, which may hold CUDA's libraries too. It looks
// where Locate does; a library is of the GPU build if the CUDA provider lies beside it. A path that is set and names
// the CPU build is an error. Errors wrap ErrLibrary.
func LocateGPU(explicit string) (path, folder string, err error) {
	cached, err := fetch.GPUFolder()
	if err != nil {
		return "", "", fmt.Errorf("%w: %v: %s", ErrLibrary, err, remedyGPU)
	}
	path = filepath.Join(cached, fetch.LibraryName())
	set, err := named(explicit, "make ort-cuda")
	if err != nil {
		return "", "", err
	}
	if set != "" {
		path = set
		if isGPU(path) != nil {
			return "", "", fmt.Errorf("%w: %s is not the GPU build of ONNX Runtime: %s is not beside it: %s", ErrLibrary, path,
				providerLibrary, remedyGPU)
		}
	} else if exe, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(exe), fetch.LibraryName()); isGPU(beside) == nil {
			path = beside
		}
	}
	if err := isGPU(path); err != nil {
		return "", "", fmt.Errorf("%w: the GPU build of ONNX Runtime is not installed in %s: %s", ErrLibrary,
			filepath.Dir(path), remedyGPU)
	}
	return path, filepath.Dir(path), nil
}

// isGPU returns an error if path is not a library of the GPU build.
func isGPU(path string) error {
	return errors.Join(isFile(path), isFile(filepath.Join(filepath.Dir(path), providerLibrary)))
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
