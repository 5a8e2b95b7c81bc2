package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tgi/plugins"
	"tgi/server/config"
)

// A [[plugin]] goes before an upload of its name, which waits until none has the name any more: it serves again at once
// then. An operator who says so may replace an upload in that way. A file that is found to have changed may be a part
// of what is meant, and must not switch a guard off.

// loadUploads reads the uploads that are kept, and logs what is wrong with them: those can't be used, and requests that
// they apply to are told so. The error is for a folder that can't be read: a guard may be in it.
func (f *manager) loadUploads() error {
	list, err := f.folder.load()
	if list == nil {
		return f.cfg.KeyError("plugins.uploads", err)
	}
	f.uploads = list
	if err != nil { // the others are there
		f.log.Error("uploaded plugins that cannot be read", "folder", f.cfg.Plugins.Uploads, "error", err)
	}
	f.warnOfKeys()
	f.warnOfWaiting()
	return nil
}

// keptFor returns the upload of a name for a model with settings, nil for none.
func (f *manager) keptFor(cfg config.Config, name string) *plugins.Kept {
	f.mu.Lock()
	u, ok := f.uploads[name]
	f.mu.Unlock()
	if !ok || !mayUsePlugin(cfg.Model, name) {
		return nil
	}
	err := u.damaged
	if err == nil {
		err = checkSigned(cfg, nil, name, u)
	}
	return &plugins.Kept{Upload: u.settings, Wasm: u.wasm, Err: err}
}

// keepsUploads returns why settings that were found to have changed do not take the place of those that run: a plugin
// of theirs takes the name of an upload that applies always. f.uploading is held.
func (f *manager) keepsUploads(next config.Config) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range next.Plugin {
		u, ok := f.uploads[p.Name]
		if !ok || u.settings.Apply != plugins.ApplyAlways || settingsBlock(f.cfg, p.Name) != nil {
			continue
		}
		return fmt.Errorf("read configuration: %s: plugin[%d].name %q is that of an uploaded plugin with apply = %q, which "+
			"would not serve: so it is in a file that is being written; if it is meant, reload by SIGHUP or POST "+
			"/admin/reload, or remove the upload first", next.File, i, p.Name, config.ApplyAlways)
	}
	return nil
}

// waits reports whether an upload does not serve because the settings have a plugin of its name.
func (f *manager) waits(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, kept := f.uploads[name]
	return kept && settingsBlock(f.cfg, name) != nil
}

// warnOfWaiting logs which uploads do not serve because the settings have a plugin of their name.
func (f *manager) warnOfWaiting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.uploads)) {
		p := settingsBlock(f.cfg, name)
		if p == nil {
			continue
		}
		f.log.Warn("an uploaded plugin does not serve: a [[plugin]] has its name; it serves again when that is removed",
			"plugin", name, "source", p.Source, "apply", cmp.Or(p.Apply, config.ApplyRequest), "apply_of_upload",
			cmp.Or(f.uploads[name].settings.Apply, plugins.ApplyRequest))
	}
}
