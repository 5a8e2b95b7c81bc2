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
	text, err := regular.Read(c.File, 0, MaxFile)
	if c.File == "" || err != nil {
		return ""
	}
	now := Default()
	if now.take(c.File, text) != nil {
		return ""
	}
	at := "model." + key
	if i := slices.IndexFunc(now.ModelList, func(m Model) bool { return m.Name == c.Model.Name }); i >= 0 {
		at = fmt.Sprintf("model[%d].%s", i, key)
	}
	line := lines(text)[at]
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
