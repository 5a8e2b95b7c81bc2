package config

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Place says where the settings' file sets a key of the model, such as "template", as
// it is now: "file:line:column". It is empty where no file does.
func (c *Config) Place(key string) string {
	text, err := os.ReadFile(c.File)
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
