package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrUnavailable says that CUDA cannot be used here. The text says why and what to do.
var ErrUnavailable = errors.New("CUDA is not available")

// names are the libraries in the order in which they are opened: each needs only those before it. The driver's comes
// with the driver, the others with CUDA 13.
var names = []string{"libcuda.so.1", "libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10"}

// positions in names
const (
	driverLibrary  = 0
	runtimeLibrary = 1
)

// Names lists the libraries that Load opens: the driver's, then those of CUDA.
func Names() []string { return append([]string(nil), names...) }

// remedy ends errors about a library of CUDA that is missing.
const remedy = "run `make ort-cuda` or `tgi doctor --fetch cuda`, or install CUDA 13"

// driverRemedy ends errors about the driver.
const driverRemedy = "install NVIDIA's driver, version 580 or newer, or set [runtime] device = \"cpu\""

// find returns the path of each library: the file of that name in the first of the folders that has it, otherwise the
// bare name, for which the loader searches the system.
func find(folders []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = name
		for _, folder := range folders {
			file := filepath.Join(folder, name)
			if info, err := os.Stat(file); err == nil && !info.IsDir() {
				paths[i] = file
				break
			}
		}
	}
	return paths
}

// missing is the error of a library that could not be opened; why is the loader's text.
func missing(i int, path, why string) error {
	why = strings.TrimPrefix(why, path+": ")
	if i == driverLibrary {
		return fmt.Errorf("%w: no driver: %s does not open (%s): %s", ErrUnavailable, path, why, driverRemedy)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing: %s", ErrUnavailable, names[i], remedy)
	}
	return fmt.Errorf("%w: %s does not open (%s): %s", ErrUnavailable, path, why, remedy)
}
