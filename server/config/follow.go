package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"tgi/runtime/filestamp"
)

// Errors of a file that is read while a server runs on it. Whoever writes a file in place empties it first, so what is
// read may be a part of what is meant, and a part has fewer plugins.
var (
	errChanged = errors.New("it changed while it was read")
	errEmpty   = errors.New("it holds no setting, and the settings that run came from it: so does a file that is " +
		"being written; to run without settings, restart the server without them")
)

// askFor is how a change that looks like a mistake is taken over.
const askFor = "if it is meant, reload by SIGHUP or POST /admin/reload"

// follows returns why settings that were read do not take the place of those that run. before is the stamp of the file
// of these before it was read.
func (l *Loaded) follows(running *Config, before filestamp.Stamp, asked bool) error {
	now := &l.Config
	switch {
	case running.File != "" && now.File == "":
		return os.ErrNotExist
	case !filestamp.Of(running.File).Same(before):
		return errChanged
	case settingsIn(now.text) == 0 && settingsIn(running.text) > 0 && !running.endsWithRequested(running.text):
		return errEmpty
	}
	if !asked {
		if err := l.looksWhole(running); err != nil {
			return err
		}
	}
	return now.keepsGuards(running)
}

// settingsIn is how many lines of a file have a setting.
func settingsIn(text string) int { return len(lines([]byte(text))) }

// looksWhole returns why a file that nobody said is whole may be a part of one: it is the one that runs, cut, or it
// does not say of a plugin that applies always that it is no more to do so, or it ends within a line or a plugin.
func (l *Loaded) looksWhole(running *Config) error {
	now := &l.Config
	if left := strings.TrimRight(now.text, " \t\r\n"); strings.HasPrefix(running.text, left) &&
		settingsIn(now.text) < settingsIn(running.text) && !running.endsWithRequested(running.text[len(left):]) {
		return fmt.Errorf("it is the file that runs, cut after line %d: so is one that is being written; %s",
			1+strings.Count(left, "\n"), askFor)
	}
	for _, p := range running.Plugin {
		if p.Apply != ApplyAlways {
			continue
		}
		at := slices.IndexFunc(now.Plugin, func(other Plugin) bool { return other.Name == p.Name })
		if at < 0 {
			return fmt.Errorf("plugin %q with apply = %q is not in it any more: so it is in a file that is being "+
				"written; %s", p.Name, ApplyAlways, askFor)
		}
		key := fmt.Sprintf("plugin[%d].apply", at)
		if _, said := l.origins[key]; !said {
			return fmt.Errorf("%s is left out, and plugin %q runs with apply = %q: so it is in a file that is being "+
				"written; set it to %q, or, %s", key, p.Name, ApplyAlways, ApplyRequest, askFor)
		}
	}
	return endsAsBefore(running.text, now.text)
}

// endsWithRequested reports whether the end of a file's text is whole plugins that apply by request: without them it is
// as `tgi plugin rm` leaves it. Should the rest still be coming, nobody is without a guard until then.
func (c *Config) endsWithRequested(end string) bool {
	whole := true
	expressions([]byte(end), func(_ *unstable.Parser, _ *unstable.Node, name string) {
		whole = whole && strings.HasPrefix(name, "plugin[")
	})
	plugins, _ := pluginsIn(end)
	return whole && len(plugins) > 0 && !slices.ContainsFunc(c.Plugin, func(p Plugin) bool {
		return p.Apply == ApplyAlways &&
			slices.ContainsFunc(plugins, func(gone pluginText) bool { return gone.name == p.Name })
	})
}

// endsAsBefore returns why the text of a file looks cut within its last line, or within the settings of the plugin that
// it ends with: what that one had set is not set any more. What is cut elsewhere lacks plugins.
func endsAsBefore(running, now string) error {
	if strings.HasSuffix(running, "\n") && !strings.HasSuffix(now, "\n") && now != "" {
		return fmt.Errorf("line %d, its last, does not end: so it is in a file that is being written; end the line, or, %s",
			1+strings.Count(now, "\n"), askFor)
	}
	plugins, ends := pluginsIn(now)
	if !ends {
		return nil
	}
	said, at := lines([]byte(now)), len(plugins)-1
	before, _ := pluginsIn(running)
	for _, p := range before {
		if p.name != plugins[at].name {
			continue
		}
		for _, key := range p.keys {
			if _, ok := said[fmt.Sprintf("plugin[%d].%s", at, key)]; !ok {
				return fmt.Errorf("plugin[%d].%s is left out, plugin %q runs with it, and the file ends with that plugin: "+
					"so it is in a file that is being written; %s", at, key, p.name, askFor)
			}
		}
	}
	return nil
}

// pluginText is what the text of a file has of a plugin.
type pluginText struct {
	name string
	keys []string // and tables below it, in their order
}

// pluginsIn are the [[plugin]] in the text of a file. ends says that the file ends with one.
func pluginsIn(text string) (list []pluginText, ends bool) {
	expressions([]byte(text), func(_ *unstable.Parser, e *unstable.Node, name string) {
		if e.Kind == unstable.ArrayTable && name == fmt.Sprintf("plugin[%d]", len(list)) {
			list, ends = append(list, pluginText{}), true
			return
		}
		var key string
		key, ends = strings.CutPrefix(name, fmt.Sprintf("plugin[%d].", len(list)-1))
		if !ends || e.Kind == unstable.ArrayTable {
			return
		}
		last := &list[len(list)-1]
		if last.keys = append(last.keys, key); key == "name" {
			last.name = string(e.Value().Data)
		}
	})
	return list, ends
}

// keepsGuards returns why the plugins of c must not take the place of those of running: the keys of running let clients
// in until a restart, and what rests on plugins for them must stay so long.
func (c *Config) keepsGuards(running *Config) error {
	named := func(list []Key, name string) *Key {
		if at := slices.IndexFunc(list, func(k Key) bool { return k.Name == name }); at >= 0 {
			return &list[at]
		}
		return nil
	}
	keys := c.AllKeys()
	for _, p := range running.Plugin {
		var next Plugin
		if at := slices.IndexFunc(c.Plugin, func(other Plugin) bool { return other.Name == p.Name }); at >= 0 {
			next = c.Plugin[at]
		}
		for _, name := range p.Keys {
			// A key that stays may be let go; one that ends at the restart would be without the plugin until then.
			serves := next.Apply == ApplyAlways && (len(next.Keys) == 0 || slices.Contains(next.Keys, name))
			if named(keys, name) == nil && !serves {
				return fmt.Errorf("plugin %q applies always for key %q, which is not in it any more and lets clients in "+
					"until a restart: restart the server, or keep the plugin for the key until then", p.Name, name)
			}
		}
		if next.Name != "" || c.knowsPlugin(p.Name) {
			continue
		}
		for _, k := range running.Key {
			if now := named(c.Key, k.Name); slices.Contains(k.Plugins, p.Name) && (now == nil ||
				slices.Contains(now.Plugins, p.Name)) {
				return fmt.Errorf("plugin %q is not in it any more, and key %q names it (key.plugins): keep the "+
					"plugin, or take its name from the key's", p.Name, k.Name)
			}
		}
	}
	return nil
}
