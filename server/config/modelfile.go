package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The key model of a file is a table or a list of tables; go-toml has one type
// for a key, so there are two for a file. Their Model hides that of Config.
type (
	oneModel struct {
		*Config
		Model modelText `toml:"model"`
	}
	manyModels struct {
		*Config
		Model []modelText `toml:"model"`
	}
)

// modelText is a model as a file has it.
type modelText struct {
	Model
	// Other names of Weights.
	Quantization string `toml:"quantization"`
	Quantisation string `toml:"quantisation"`
}

// weightsAliases are the keys of modelText besides those of Model.
var weightsAliases = []string{"quantization", "quantisation"}

// decodeFile decodes text into c, with what it has of models. What c has of
// [[model]] is replaced by that of the text, and kept when that has none.
func decodeFile(name string, text []byte, c *Config) error {
	var given map[string]any
	if err := toml.Unmarshal(text, &given); err != nil {
		return placed(name, err)
	}
	if err := checkFile(name, text, given); err != nil {
		return err
	}
	model, _ := find(given, "model")
	blocks, several := model.([]any)
	if several {
		if err := c.decodeMany(name, text, blocks); err != nil {
			return err
		}
	} else {
		file := oneModel{Config: c, Model: modelText{Model: c.Model}}
		if err := decode(name, text, &file); err != nil {
			return err
		}
		if twice := file.Model.settle(model); twice != "" {
			return twiceError(name, text, "model."+twice)
		}
		c.Model = file.Model.Model
	}
	return c.units(name, text, given)
}

// decodeMany decodes text with its blocks [[model]] into c.
func (c *Config) decodeMany(name string, text []byte, blocks []any) error {
	file := manyModels{Config: c}
	if err := decode(name, text, &file); err != nil {
		return err
	}
	c.ModelList = nil
	for i := range file.Model {
		m := &file.Model[i]
		fill(&m.Model, blocks[i])
		if twice := m.settle(blocks[i]); twice != "" {
			return twiceError(name, text, fmt.Sprintf("model[%d].%s", i, twice))
		}
		c.ModelList = append(c.ModelList, m.Model)
	}
	return nil
}

// fill sets the settings that the table given lacks to their defaults.
func fill(m *Model, given any) {
	d := defaultModel()
	fillTable(reflect.ValueOf(m).Elem(), reflect.ValueOf(&d).Elem(), given)
}

// fillTable sets what the table given lacks in to as it is in from.
func fillTable(to, from reflect.Value, given any) {
	for f, v := range to.Fields() {
		inner, ok := find(given, f.Tag.Get("toml"))
		switch d := from.FieldByIndex(f.Index); {
		case !ok:
			v.Set(d)
		case v.Kind() == reflect.Struct && f.Tag.Get("toml") != "":
			fillTable(v, d, inner)
		}
	}
}

// settle takes weights from the other names of it. It returns the second of two
// that are given.
func (m *modelText) settle(given any) (twice string) {
	taken := has(given, "weights")
	for i, text := range []string{m.Quantization, m.Quantisation} {
		key := weightsAliases[i]
		if !has(given, key) {
			continue
		}
		if taken {
			return key
		}
		m.Weights, taken = text, true
	}
	return ""
}

// has reports whether a table of TOML, as decoded into an any, has the key.
func has(table any, key string) bool {
	_, ok := find(table, key)
	return ok
}

// find returns the value of a key of a table of TOML, as decoded into an any;
// go-toml takes keys in any case.
func find(table any, key string) (value any, ok bool) {
	t, _ := table.(map[string]any)
	for k, value := range t {
		if strings.EqualFold(k, key) {
			return value, true
		}
	}
	return nil, false
}

// twiceError says that weights was given once more as key; text is the file.
func twiceError(name string, text []byte, key string) error {
	return fmt.Errorf("%s:%d: %s is another name of weights, which is given too: give one of them", name,
		lines(text)[key], key)
}

// canonical returns the key of the setting that key, as lines returns it, is
// another name of; otherwise key.
func canonical(key string) string {
	for _, alias := range weightsAliases {
		table, ok := strings.CutSuffix(key, "."+alias)
		if ok && (table == "model" || strings.HasPrefix(table, "model[")) {
			return table + ".weights"
		}
	}
	return key
}
