package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Placed puts the line of the file in front of each error of a list that begins with a key that stands there.
func (l *Loaded) Placed(err error) error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var out []error
	for _, e := range list.Unwrap() {
		key, _, _ := strings.Cut(e.Error(), " ")
		if at := l.line(key); at != "" {
			e = fmt.Errorf("%s: %w", at, e)
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

// line returns file and line of a key, "" where it does not come from a file. That of a key which a block lacks is the
// first of the block's.
func (l *Loaded) line(key string) string {
	if at, ok := l.origins[key]; ok {
		if strings.HasPrefix(at, "flag ") || strings.HasPrefix(at, "env ") {
			return ""
		}
		return at
	}
	if strings.HasSuffix(key, "]") { // an entry of a list
		return l.line(key[:strings.LastIndexByte(key, '[')])
	}
	if i := strings.IndexByte(key, ']'); i >= 0 {
		return l.first(key[:i+1] + ".")
	}
	return ""
}

// first returns the file and the first line of the keys that begin with prefix.
func (l *Loaded) first(prefix string) (at string) {
	least := 0
	for key, origin := range l.origins {
		n := 0
		if i := strings.LastIndexByte(origin, ':'); i >= 0 && strings.HasPrefix(key, prefix) {
			_, _ = fmt.Sscanf(origin[i:], ":%d", &n)
		}
		if n > 0 && (least == 0 || n < least) {
			at, least = origin, n
		}
	}
	return at
}

// doubts adds notices of what is taken as it is and is probably a slip. It may become right while the server runs, so
// that it is no error.
func (l *Loaded) doubts() {
	c := &l.Config
	doubt := func(effect bool, key, format string, args ...any) {
		name := key
		if at := l.line(key); at != "" {
			name = at + ": " + key
		} else if origin, ok := strings.CutPrefix(l.origins[key], "flag "); ok {
			name = origin
		} else if origin, ok := strings.CutPrefix(l.origins[key], "env "); ok {
			name = origin
		}
		l.Notices = append(l.Notices, Notice{Name: name, Why: fmt.Sprintf(format, args...), Effect: effect})
	}
	if _, given := l.origins["plugins.folder"]; given && c.Plugins.Folder != "" && missing(c.Plugins.Folder) {
		later, usual := "when it is there", Default()
		if c.Plugins.Watch == 0 {
			later = "at the first reload when it is there"
		}
		usual.locate(filepath.Dir(c.File))
		if usual.Plugins.Folder != c.Plugins.Folder && !missing(usual.Plugins.Folder) {
			later += fmt.Sprintf("; plugins of %q are not, as they would be without this setting", usual.Plugins.Folder)
		}
		doubt(true, "plugins.folder", "there is no folder %q yet: plugins of it are loaded %s", c.Plugins.Folder, later)
	}
	if id := c.Models.Default; id != "" && !c.knows(id) {
		doubt(true, "models.default", "there is no model and no adapter %q yet: requests that name no model are refused",
			trim(id))
	}
	for i, origin := range c.Server.CORSAllowOrigin {
		if !isOrigin(origin) {
			doubt(false, fmt.Sprintf("server.cors_allow_origin[%d]", i), "no page has the origin %q: they are like "+
				"https://example.com and http://localhost:8080, and the empty list is all", trim(ShownHost(origin)))
		}
	}
	unknown := func(key string, names []string) {
		for i, name := range names {
			if !strings.Contains(name, "*") && !c.knowsPlugin(name) {
				doubt(false, fmt.Sprintf("%s[%d]", key, i), "there is no plugin %q yet; one that is built in becomes one "+
					"by a block [[plugin]] with source = \"%sNAME\"", trim(name), Builtin)
			}
		}
	}
	c.eachPluginOfModels(unknown)
	for i, k := range c.Key {
		unknown(fmt.Sprintf("key[%d].plugins", i), k.Plugins)
		for j, id := range k.Models {
			if !c.knows(id) {
				doubt(false, fmt.Sprintf("key[%d].models[%d]", i, j), "there is no model and no adapter %q yet", trim(id))
			}
		}
	}
}

// eachPluginOfModels calls f with the plugins of each model and their key.
func (c *Config) eachPluginOfModels(f func(key string, names []string)) {
	f("model.plugins", c.Model.Plugins)
	for i, m := range c.ModelList {
		f(fmt.Sprintf("model[%d].plugins", i), m.Plugins)
	}
}

// CheckPluginNames finds names among the plugins of a model that no plugin has. A start notes them alone, since one
// may be uploaded later, or be put into the folder. Keys may name what is to come. builtin are the names of those that
// are built in.
func (c *Config) CheckPluginNames(builtin []string) error {
	var declared []string
	for _, p := range c.Plugin {
		declared = append(declared, p.Name)
	}
	var wrong []error
	c.eachPluginOfModels(func(key string, names []string) {
		for _, name := range names {
			if !strings.Contains(name, "*") && !c.knowsPlugin(name) {
				hint := Suggest(name, declared)
				if slices.Contains(builtin, name) {
					hint = fmt.Sprintf(": it is built in and becomes one by a block [[plugin]] with source = %q", Builtin+name)
				}
				wrong = append(wrong, c.KeyError(key, fmt.Errorf("there is no plugin %q%s", trim(name), hint)))
			}
		}
	})
	return errors.Join(wrong...)
}

// knows reports whether a model or an adapter is declared, or in the models folder.
func (c *Config) knows(id string) bool {
	if slices.ContainsFunc(c.All(), func(m Model) bool {
		return m.Name == id || slices.ContainsFunc(m.Adapters, func(a Adapter) bool { return a.Name == id })
	}) {
		return true
	}
	folder, err := c.Models.Dir()
	return err != nil || !missing(filepath.Join(folder, filepath.FromSlash(id)))
}

// knowsPlugin reports whether a plugin is declared, in the folder, uploaded, or one that there always is.
func (c *Config) knowsPlugin(name string) bool {
	always := []string{TemplatePlugin, ToolsPlugin, KindGrammar}
	if slices.Contains(always, name) || slices.ContainsFunc(c.Plugin, func(p Plugin) bool { return p.Name == name }) {
		return true
	}
	in := func(folder, file string) bool { return folder != "" && !missing(filepath.Join(folder, file)) }
	return in(c.Plugins.Folder, name+".wasm") || in(c.Plugins.Uploads, name+".json")
}

// isOrigin reports whether a browser can name an origin so: pages of files have the origin null.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "null" || err == nil && u.Host != "" && text == u.Scheme+"://"+u.Host
}

// missing reports whether nothing is at path.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}
