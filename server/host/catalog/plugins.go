package catalog

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/server/config"
)

// Plugin is one plugin that could be used.
type Plugin struct {
	Name string `json:"name"`
	// Kinds are those that the module has exports of, or the one that the settings take of it.
	Kinds  []string `json:"kinds"`
	Source string   `json:"source"`
	// Declared says where the plugin is declared: in the settings, by the folder, or nowhere for one that is
	// built in and not used by name.
	Declared string `json:"declared,omitempty"`
	// Reference is the artefact that an installed plugin is from.
	Reference string `json:"reference,omitempty"`
	Bytes     int    `json:"bytes"`
	Error     string `json:"error,omitempty"`
}

// Values of Plugin.Declared.
const (
	BySettings = "settings"
	ByFolder   = "folder"
)

// Plugins returns the plugins that cfg declares, those of the folder, and the built-in ones that no setting names.
func Plugins(cfg config.Config) (list []Plugin, err error) {
	known := func(name, source string) bool {
		return slices.ContainsFunc(list, func(l Plugin) bool { return l.Name == name || l.Source == source })
	}
	for _, p := range cfg.Plugin {
		l := inspect(p.Name, p.Source, BySettings)
		l.Reference = p.Reference
		if p.Kind != "" {
			l.Kinds = []string{p.Kind}
		}
		list = append(list, l)
	}
	var files []string
	if folder := cfg.Plugins.Folder; folder != "" {
		if files, err = filepath.Glob(filepath.Join(folder, "*.wasm")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		if !strings.HasPrefix(name, ".") && !known(name, file) {
			list = append(list, inspect(name, file, ByFolder))
		}
	}
	builtin, err := fs.Glob(std.FS(), "*.wasm")
	if err != nil {
		return nil, err
	}
	for _, file := range builtin {
		name := strings.TrimSuffix(file, ".wasm")
		if source := plugins.Builtin + name; !known(name, source) {
			list = append(list, inspect(name, source, ""))
		}
	}
	return list, nil
}

// inspect reads a module.
func inspect(name, source, declared string) Plugin {
	l := Plugin{Name: name, Source: source, Declared: declared, Kinds: []string{}}
	wasm, err := Module(source)
	if err != nil {
		l.Error = err.Error()
		return l
	}
	l.Bytes = len(wasm)
	l.Kinds = append(l.Kinds, check.Kinds(wasm)...)
	return l
}
