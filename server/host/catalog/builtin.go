package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
)

// builtins are the names of the modules that are built in.
func builtins() (names []string) {
	files, _ := fs.Glob(std.FS(), "*.wasm") // whose only error is of a pattern
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".wasm"))
	}
	return names
}

// builtin reads the module that is built in under a name, with or without builtin: before it. The error wraps
// fs.ErrNotExist where there is none.
func builtin(word string) (name string, module []byte, err error) {
	name = strings.TrimPrefix(word, plugins.Builtin)
	module, err = fs.ReadFile(std.FS(), name+".wasm")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		err = &plugins.Misnamed{Name: name, Known: builtins(),
			Err: fmt.Errorf("there is no built-in plugin %q: %w", name, fs.ErrNotExist)}
	}
	return name, module, err
}

// Module reads a module: a file, or with builtin: before its name one that is built in.
func Module(word string) ([]byte, error) {
	if strings.HasPrefix(word, plugins.Builtin) {
		_, module, err := builtin(word)
		return module, err
	}
	return check.ReadModule(word)
}

// NameOf is what a module is called that Module reads, unless somebody calls it otherwise.
func NameOf(word string) string {
	return strings.TrimSuffix(filepath.Base(strings.TrimPrefix(word, plugins.Builtin)), ".wasm")
}
