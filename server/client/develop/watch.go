package develop

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// maxFiles bounds how many files of a project are looked at.
const maxFiles = 5000

// outputs are folders that builds write to.
var outputs = map[string]bool{"target": true, "build": true, "node_modules": true}

// stamp sums the names, sizes and times of a project's sources: it is another after each change. What vanishes while it
// looks counts as gone.
func stamp(project fs.FS) (string, error) {
	h, files := sha256.New(), 0
	err := fs.WalkDir(project, ".", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != "." {
			return nil
		}
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case path == ".":
			return nil
		case d.IsDir() && (outputs[name] || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".wasm") ||
			strings.HasSuffix(name, "~"):
			return nil
		}
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files: is it a plugin's project?", maxFiles)
		}
		info, err := d.Info()
		if err != nil { // it was removed meanwhile
			return nil
		}
		fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return string(h.Sum(nil)), err
}
