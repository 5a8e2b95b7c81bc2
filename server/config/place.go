package config

import (
	"bytes"
	"errors"
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
	return c.inFile(func(now Config) []string {
		if i := slices.IndexFunc(now.ModelList, func(m Model) bool { return m.Name == c.Model.Name }); i >= 0 {
			return []string{fmt.Sprintf("model[%d].%s", i, key)}
		}
		return []string{"model." + key}
	})
}

// PlaceOf is Place of a key of any section, such as "record.folder" or "plugin_signer[0].public_key".
func (c *Config) PlaceOf(key string) string {
	if name := c.Given[key]; name != "" {
		return name
	}
	return c.inFile(func(Config) []string { return []string{key} })
}

// ErrWrong is what an error matches that the settings are at fault for.
var ErrWrong = errors.New("the settings are wrong")

// wrong is such an error.
type wrong struct{ error }

// Unwrap returns the error.
func (w wrong) Unwrap() error { return w.error }

// Is reports whether target is ErrWrong.
func (wrong) Is(target error) bool { return target == ErrWrong }

// Wrong has an error match ErrWrong; nil stays nil.
func Wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrong{err}
}

// KeyError has an error about a key begin with the key and where it stands, if it does. It matches ErrWrong.
func (c *Config) KeyError(key string, err error) error {
	if at := c.PlaceOf(key); at != "" {
		return Wrong(fmt.Errorf("%s: %s: %w", at, key, err))
	}
	return Wrong(fmt.Errorf("%s: %w", key, err))
}

// Located has each error of a list, or the one that it is, begin with where the key stands that it begins with: a key
// of a section, or a section with a colon. It matches ErrWrong then.
func (c *Config) Located(err error) error {
	list, ok := err.(interface{ Unwrap() []error })
	if ok && errors.Join(list.Unwrap()...).Error() == err.Error() {
		var out []error
		for _, e := range list.Unwrap() {
			out = append(out, c.Located(e))
		}
		return errors.Join(out...)
	}
	if err == nil {
		return nil
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	key, closed := strings.CutSuffix(word, ":")
	if at := c.PlaceOf(key); at != "" && (closed || strings.Contains(key, ".")) {
		return Wrong(fmt.Errorf("%s: %w", at, err))
	}
	return err
}

// PluginPlace is Place of a key of a declared plugin. Where its block lacks the key, it is that of the table that would
// have it, or else of the plugin's source: what has no line of its own follows from these.
func (c *Config) PluginPlace(name, key string) string {
	return c.inFile(func(now Config) (keys []string) {
		i := slices.IndexFunc(now.Plugin, func(p Plugin) bool { return p.Name == name })
		for _, k := range append(outward(key), "source", "name") {
			keys = append(keys, fmt.Sprintf("plugin[%d].%s", i, k))
		}
		return keys
	})
}

// outward lists a key and the tables that it is in, from the inside.
func outward(key string) (keys []string) {
	for {
		keys = append(keys, key)
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			return keys
		}
		key = key[:i]
	}
}

// inFile says where the first of what find names is set in the settings' file, which it gets as it is now.
func (c *Config) inFile(find func(now Config) []string) string {
	text, err := regular.Read(c.File, 0, MaxFile)
	if c.File == "" || err != nil {
		return ""
	}
	now := Default()
	if now.take(c.File, text) != nil {
		return ""
	}
	line, all := 0, lines(text)
	for _, key := range find(now) {
		if line = all[key]; line > 0 {
			break
		}
	}
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
