package host

import (
	"path/filepath"
	"strings"

	"tgi/models/store"
	"tgi/server"
	"tgi/server/config"
)

// publicText is text without what is not for clients: paths of this machine, and the hub's token. A file of the
// settings becomes the name of what it is for, one of a folder the name in it.
func (f *manager) publicText(text string) string {
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	return publicText(cfg, f.library.Dir(), text)
}

// publicText is manager.publicText with settings and the folder of models.
func publicText(cfg config.Config, models, text string) string {
	var pairs []string // the first that fits at a place counts
	file := func(path, name string) {
		if path == "" {
			return
		}
		if whole, err := filepath.Abs(path); err == nil {
			pairs = append(pairs, whole, name)
		}
		if filepath.Base(path) != path { // one without a folder tells nothing, and may be a word
			pairs = append(pairs, path, name)
		}
	}
	for _, m := range cfg.All() {
		file(m.Path, m.Name)
		file(m.Template, filepath.Base(m.Template))
	}
	for _, p := range cfg.Plugin {
		file(p.Source, p.Name)
	}
	cache, _ := store.Dir()
	for _, dir := range []string{models, cfg.Plugins.Uploads, cfg.Plugins.Folder, cache} {
		if whole, err := filepath.Abs(dir); err == nil && dir != "" {
			const sep = string(filepath.Separator)
			pairs = append(pairs, whole+sep, "", filepath.Clean(dir)+sep, "")
		}
	}
	if token := cfg.Models.HubToken; token != "" {
		pairs = append(pairs, token, "...")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// eachPlugin returns the plugins of all models that run, one of a name for each model that has it.
func (f *manager) eachPlugin() (all []server.Plugin) {
	for _, s := range f.running() {
		all = append(all, s.control.List()...)
	}
	return all
}

// publicPlugins returns the plugins that c has as everybody may see them; the admin routes tell all.
func (f *manager) publicPlugins(c *pluginController) []server.Plugin {
	list := c.List()
	for i := range list {
		list[i].Error = f.publicText(list[i].Error)
	}
	return list
}
