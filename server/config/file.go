package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Decode lays the TOML text over c; name is how errors call it. Keys that are
// not in the text keep their value.
func Decode(name string, text []byte, c *Config) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(c)
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var all []error
		for i := range unknown.Errors {
			e := &unknown.Errors[i]
			line, _ := e.Position()
			key := strings.Join(e.Key(), ".")
			all = append(all, fmt.Errorf("%s:%d: unknown key %s%s", name, line, key, Suggest(key, append(Keys(), sections()...))))
		}
		return errors.Join(all...)
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		where := fmt.Sprintf("%s:%d", name, line)
		if key := strings.Join(bad.Key(), "."); key != "" {
			where += ": " + key
		}
		return fmt.Errorf("%s: %s", where, strings.TrimPrefix(bad.Error(), "toml: "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ReadFile lays the file at path over c.
func ReadFile(path string, c *Config) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, text, c)
}

// Keys returns the dotted key of every setting, in the order of Config.
func Keys() []string {
	var keys []string
	sections := reflect.TypeFor[Config]()
	for i := range sections.NumField() {
		section := sections.Field(i)
		for j := range section.Type.NumField() {
			keys = append(keys, section.Tag.Get("toml")+"."+section.Type.Field(j).Tag.Get("toml"))
		}
	}
	return keys
}

// sections returns the name of every section.
func sections() []string {
	var names []string
	for f := range reflect.TypeFor[Config]().Fields() {
		names = append(names, f.Tag.Get("toml"))
	}
	return names
}
