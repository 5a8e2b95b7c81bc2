package catalog

import (
	"path/filepath"
	"slices"
	"strings"

	"tgi/plugins"
	"tgi/plugins/check"
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
	all, err := declared(cfg)
	for _, p := range all {
		l := inspect(p.Name, p.Source, p.by)
		l.Reference = p.Reference
		if p.Kind != "" {
			l.Kinds = []string{p.Kind}
		}
		list = append(list, l)
	}
	return list, err
}

// declaration is a plugin with where it is declared, as Plugin.Declared says it.
type declaration struct {
	config.Plugin
	by string
}

// declared returns the plugins that Plugins lists, without looking at their modules.
func declared(cfg config.Config) (list []declaration, err error) {
	known := func(name, source string) bool {
		return slices.ContainsFunc(list, func(p declaration) bool { return p.Name == name || p.Source == source })
	}
	add := func(name, source, by string) {
		list = append(list, declaration{config.Plugin{Name: name, Source: source}, by})
	}
	for _, p := range cfg.Plugin {
		list = append(list, declaration{p, BySettings})
	}
	var files []string
	if folder := cfg.Plugins.Folder; folder != "" {
		if files, err = filepath.Glob(filepath.Join(folder, "*.wasm")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		name := NameOf(file)
		if !strings.HasPrefix(name, ".") && !known(name, file) {
			add(name, file, ByFolder)
		}
	}
	for _, name := range builtins() {
		if source := plugins.Builtin + name; !known(name, source) {
			add(name, source, "")
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
