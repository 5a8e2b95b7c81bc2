package config

import (
	"fmt"
	"strings"
)

// Adapter is a low-rank adapter (LoRA) of a model.
type Adapter struct {
	// Name is what requests call it: adapter_id in TGI's parameters, model on OpenAI's routes.
	Name string `toml:"name"`
	// Path is its folder, as PEFT saves it, relative to the folder of the settings' file. Without one, or where there
	// is none, it is the folder of the adapter's name in the models folder.
	Path string `toml:"path"`
	// Source is the repository of the hub that it is fetched from, into the models folder, where there is no folder;
	// see ParseSource.
	Source string `toml:"source"`
}

// maxAdapters bounds those of a model.
const maxAdapters = 1024

// loraAdapters reads adapters as TGI's launcher does: name=path, separated by commas; a name alone is its path too.
type loraAdapters struct{ list *[]Adapter }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a loraAdapters) UnmarshalText(text []byte) error {
	*a.list = nil
	for part := range strings.SplitSeq(string(text), ",") {
		name, path, given := strings.Cut(strings.TrimSpace(part), "=")
		if !given {
			path = name
		}
		source := ""
		if !given && strings.Contains(name, "/") { // as TGI names repositories
			source = name
		}
		if name == "" || path == "" {
			return fmt.Errorf("%q is not name=path, separated by commas", trim(string(text)))
		}
		*a.list = append(*a.list, Adapter{Name: name, Path: path, Source: source})
	}
	return nil
}

// String is the inverse.
func (a loraAdapters) String() string {
	var parts []string
	for _, one := range *a.list {
		parts = append(parts, one.Name+"="+one.Path)
	}
	return strings.Join(parts, ",")
}

// Fetched reports whether the adapter is fetched from its source, for want of a folder.
func (a Adapter) Fetched() bool { return a.Source != "" && missing(a.Path) }

// validateAdapters adds what is wrong with the adapters of models; they share their names with models.
func (c *Config) validateAdapters(v *verdict) {
	models, at := c.ModelList, "model[%d]."
	if len(models) == 0 {
		models, at = []Model{c.Model}, "model."
	}
	taken := map[string]string{}
	for _, m := range c.All() {
		taken[m.Name] = "a model"
	}
	for i, m := range models {
		prefix := at
		if strings.Contains(at, "%") {
			prefix = fmt.Sprintf(at, i)
		}
		v.check(len(m.Adapters) <= maxAdapters, "%sadapter must have at most %d entries, given %d", prefix, maxAdapters,
			len(m.Adapters))
		for j, a := range m.Adapters {
			key := fmt.Sprintf("%sadapter[%d].", prefix, j)
			v.check(a.Name != "", "%sname is needed: it is what requests call the adapter", key)
			v.id(key+"name", a.Name)
			if a.Source != "" {
				_, err := ParseSource(a.Source)
				v.check(err == nil, "%ssource %v", key, err)
			}
			v.check(taken[a.Name] == "", "%sname must differ from all others, but %s is called %q", key, taken[a.Name],
				trim(a.Name))
			if a.Name != "" {
				taken[a.Name] = "another adapter"
			}
		}
	}
}
