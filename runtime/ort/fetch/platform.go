package fetch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// LibraryName returns the file name under which the library is kept.
func LibraryName() string {
	switch runtime.GOOS {
	case "darwin":
		return "libonnxruntime.dylib"
	case "windows":
		return "onnxruntime.dll"
	}
	return "libonnxruntime.so"
}

// LibraryPath returns where the library of this platform is kept in the cache
// folder, whether it is there or not: below $TGI_CACHE, by default tgi in the
// user's cache folder.
func LibraryPath() (string, error) {
	root := os.Getenv("TGI_CACHE")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w (TGI_CACHE names one)", err)
		}
		root = filepath.Join(user, "tgi")
	}
	if !filepath.IsAbs(root) {
		return "", errors.New("TGI_CACHE must be an absolute path")
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	return filepath.Join(root, "onnxruntime", Version, platform, LibraryName()), nil
}
