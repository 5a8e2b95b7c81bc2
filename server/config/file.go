package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Decode decodes the TOML text into c; name is its name in errors. Keys that are
// not in the text keep their value.
func Decode(name string, text []byte, c *Config) error {
	if err := decodeFile(name, text, c); err != nil {
		return err
	}
	for i := range c.Plugin {
		c.Plugin[i].settle()
	}
	return nil
}

// decode decodes text, which checkFile has accepted, into file, a pointer to a struct.
func decode(name string, text []byte, file any) error {
	if err := toml.Unmarshal(text, file); err != nil {
		return placed(name, err)
	}
	return nil
}

// placed makes an error of the decoder begin with the line.
func placed(name string, err error) error {
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		where := fmt.Sprintf("%s:%d", name, line)
		if key := strings.Join(bad.Key(), "."); key != "" {
			where += ": " + key
		}
		return fmt.Errorf("%s: %s", where, strings.TrimPrefix(bad.Error(), "toml: "))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// take decodes the text of the file at path into c.
func (c *Config) take(path string, text []byte) error {
	if err := Decode(path, text, c); err != nil {
		return err
	}
	c.File = path
	c.locate(filepath.Dir(path))
	return nil
}

// Keys returns the dotted key of every setting, in the order of Config; those
// of [[plugin]] begin with "plugin.", those of [model] and [[model]] both with
// "model.".
func Keys() []string { return keysOf(nil, "", reflect.TypeFor[Config]()) }

// keysOf appends the keys of the leaves of section, a struct.
func keysOf(keys []string, prefix string, section reflect.Type) []string {
	for f := range section.Fields() {
		key := f.Tag.Get("toml")
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case key == "-":
		case inner.Kind() == reflect.Struct:
			keys = keysOf(keys, prefix+key+".", inner)
		default:
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

// sections returns the name of every section.
func sections() []string {
	var names []string
	for f := range reflect.TypeFor[Config]().Fields() {
		if name := f.Tag.Get("toml"); name != "-" {
			names = append(names, name)
		}
	}
	return append(names, "plugin.limits", "generate_api.store")
}
