package host

import (
	"cmp"
	"fmt"
	"strings"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
	"tgi/server/share/registry"
)

// Canaries of plugins that the settings or the folder have run beside what serves, as those of uploads do. What is to
// serve the settings say, for a restart too, so such a canary is not promoted: its module is put there instead.

// isUpload reports whether a name is that of an upload, and not of a [[plugin]] as well, which goes before it.
func (f *manager) isUpload(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.uploads[name]
	return ok && settingsBlock(f.cfg, name) == nil
}

// mayTry returns why a plugin can have no canary.
func (f *manager) mayTry(name string, s admin.Settings) error {
	if f.isUpload(name) {
		return nil
	}
	if _, ok := f.Get(name); !ok {
		return fmt.Errorf("%w: %.64q", server.ErrNoPlugin, name)
	}
	if s.PromoteAfter > 0 {
		return fmt.Errorf("%w: promote_after is of uploads: %s is of the settings or the folder, which say what serves",
			server.ErrNotUploaded, name)
	}
	return nil
}

// mayPromote returns why a canary can't serve, with what has its module serve instead.
func (f *manager) mayPromote(name string, c canary) error {
	if f.isUpload(name) {
		return nil
	}
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	p := settingsBlock(cfg, name)
	switch {
	case p == nil:
		serving, _ := f.Get(name)
		return fmt.Errorf("%w: %s is a file of the folder: put the module (sha256 %s) in the place of %s",
			server.ErrNotUploaded, name, c.sum, serving.Source)
	case p.Reference != "":
		return fmt.Errorf("%w: %s was installed from %s; where this version was pushed, this has it serve: %s",
			server.ErrNotUploaded, name, p.Reference, installCommand(cfg, *p, c.version))
	case strings.HasPrefix(p.Source, config.Builtin):
		return fmt.Errorf("%w: %s is built in: name the file of the module (sha256 %s) as source of its [[plugin]]",
			server.ErrNotUploaded, name, c.sum)
	case p.SHA256 != "":
		return fmt.Errorf("%w: %s is of the settings: put the module in the place of %s, and sha256 = %q into its [[plugin]]",
			server.ErrNotUploaded, name, p.Source, c.sum)
	}
	return fmt.Errorf("%w: %s is of the settings: put the module (sha256 %s) in the place of %s", server.ErrNotUploaded,
		name, c.sum, p.Source)
}

// installCommand is the command that installs a version of an installed plugin, by the tag that tgi plugin push gives
// it.
func installCommand(cfg config.Config, p config.Plugin, version string) string {
	at, _ := registry.Parse(p.Reference) // which was one when it was installed
	to, err := registry.Reference{Repository: at.Repository}.Tagged(version)
	if err != nil {
		to.Tag = "TAG"
	}
	command := fmt.Sprintf("tgi plugin install %s --name %s", to, p.Name)
	if cmp.Or(cfg.File, config.DefaultFile) != config.DefaultFile {
		command += " --config " + cfg.File
	}
	return command
}
