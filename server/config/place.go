package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"tgi/runtime/regular"
)

// Place says where a key of the model, such as "template", is set: "file:line:column" as the settings' file is now, or
// the flag or variable that goes before the file. It is empty where none does.
func (c *Config) Place(key string) string {
	if name := c.Given["model."+key]; name != "" {
		return name
	}
	return c.inFile(func(now Config) string {
		if i := slices.IndexFunc(now.ModelList, func(m Model) bool { return m.Name == c.Model.Name }); i >= 0 {
			return fmt.Sprintf("model[%d].%s", i, key)
		}
		return "model." + key
	})
}

// PluginPlace is Place of a key of a declared plugin.
func (c *Config) PluginPlace(name, key string) string {
	return c.inFile(func(now Config) string {
		i := slices.IndexFunc(now.Plugin, func(p Plugin) bool { return p.Name == name })
		return fmt.Sprintf("plugin[%d].%s", i, key)
	})
}

// inFile says where what find names is set in the settings' file, which it gets as it is now.
func (c *Config) inFile(find func(now Config) string) string {
	text, err := regular.Read(c.File, 0, MaxFile)
	if c.File == "" || err != nil {
		return ""
	}
	now := Default()
	if now.take(c.File, text) != nil {
		return ""
	}
	line := lines(text)[find(now)]
	if line == 0 {
		return ""
	}
	row := string(bytes.Split(text, []byte("\n"))[line-1])
	return fmt.Sprintf("%s:%d:%d", c.File, line, 1+len(row)-len(strings.TrimLeft(row, " \t")))
}

// given notes that a key's value comes from a flag or a variable.
func (c *Config) given(key, name string) {
	if c.Given == nil {
		c.Given = map[string]string{}
	}
	c.Given[key] = name
}
