package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CheckPaths looks at all that settings name on this machine, and says of what a server would miss, now or when it is
// first asked for, where it is named. It changes nothing and opens no file.
func (c *Config) CheckPaths() error {
	p := paths{config: c}
	p.folder("models.folder", c.Models.Folder)
	p.folder("plugins.folder", c.Plugins.Folder)
	p.folder("plugins.uploads", c.Plugins.Uploads)
	p.folder("plugins.installed", c.Plugins.Installed)
	p.folder("runtime.kv_disk", c.Runtime.KVDisk)
	p.folder("record.folder", c.Record.Folder)
	p.folder("batches.folder", c.Batches.Folder)
	p.file("server.tls_cert", c.Server.TLSCert)
	p.file("server.tls_key", c.Server.TLSKey)
	p.file("runtime.ort_lib", c.Runtime.ORTLib)
	p.model("model.", &c.Model)
	for i := range c.ModelList {
		at := fmt.Sprintf("model[%d].", i)
		p.model(at, &c.ModelList[i])
		p.named(at+"name", &c.ModelList[i])
	}
	for i, m := range c.MCP {
		at := fmt.Sprintf("mcp[%d].", i)
		if m.Folder != "" && missing(m.Folder) {
			p.add(at+"folder", fmt.Errorf("there is no folder %q", Shown(m.Folder)))
		}
		p.folder(at+"folder", m.Folder)
		if len(m.Command) > 0 {
			_, err := m.Program()
			p.add(at+"command", err)
		}
	}
	for i, s := range c.PluginSigner {
		if s.IsFile() {
			p.file(fmt.Sprintf("plugin_signer[%d].public_key", i), s.PublicKey)
		}
	}
	for i, one := range c.Plugin {
		if !strings.HasPrefix(one.Source, Builtin) && one.OnError != OnErrorSkip {
			p.file(fmt.Sprintf("plugin[%d].source", i), one.Source)
		}
	}
	return errors.Join(p.wrong...)
}

// paths collects what is wrong with those of settings.
type paths struct {
	config *Config
	wrong  []error
}

func (p *paths) add(key string, err error) {
	if err != nil {
		p.wrong = append(p.wrong, p.config.KeyError(key, err))
	}
}

// folder says whether something else is in the place of a folder; that it is not there yet is no error.
func (p *paths) folder(key, path string) {
	if path == "" {
		return
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		p.add(key, unreadable(path, err))
	case !info.IsDir():
		p.add(key, fmt.Errorf("%q is a file, a folder is wanted", Shown(path)))
	}
}

// unreadable is the error of a look at path, which may be an address with a password that was put there.
func unreadable(path string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%q: %w", Shown(path), err)
}

// file says whether a file is there.
func (p *paths) file(key, path string) {
	if path == "" {
		return
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		p.add(key, fmt.Errorf("there is no file %q", Shown(path)))
	case err != nil:
		p.add(key, unreadable(path, err))
	case info.IsDir():
		p.add(key, fmt.Errorf("%q is a folder, a file is wanted", Shown(path)))
	}
}

// model looks at what a model names.
func (p *paths) model(at string, m *Model) {
	if m.Path != "" && missing(m.Path) {
		p.add(at+"path", fmt.Errorf("there is no folder or file %q", Shown(m.Path)))
	}
	if IsTemplateFile(m.Template) {
		p.file(at+"template", m.Template)
	}
	if IsFormatFile(m.Tools) {
		p.file(at+"tools", m.Tools)
	}
	for i, a := range m.Adapters {
		if a.Path != "" && a.Source == "" && missing(a.Path) {
			key := fmt.Sprintf("%sadapter[%d].", at, i)
			if p.config.PlaceOf(key+"path") != "" {
				key += "path"
			} else {
				key += "name" // from which the path follows
			}
			p.add(key, fmt.Errorf("%q: there is no folder %q", a.Name,
				Shown(a.Path)))
		}
	}
}

// named looks for a model that its name alone says where it is.
func (p *paths) named(key string, m *Model) {
	if m.Path != "" || m.Source != "" || m.Demo() {
		return
	}
	folder, err := p.config.Models.Dir()
	if err == nil && missing(filepath.Join(folder, filepath.FromSlash(m.Name))) {
		err = fmt.Errorf("there is no model %q in the models folder %q: pull it (tgi model pull), or give its path or source",
			m.Name, folder)
	}
	p.add(key, err)
}

// Program is the file that Command starts.
func (m MCP) Program() (string, error) {
	program := m.Command[0]
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) { // from its folder
		var err error
		if program, err = filepath.Abs(filepath.Join(m.Folder, program)); err != nil {
			return "", err
		}
	}
	return exec.LookPath(program)
}
