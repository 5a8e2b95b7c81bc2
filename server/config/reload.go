package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"tgi/runtime/filestamp"
)

// Reload reads the settings again, from the places that running came from: flags
// and lookup are those that Read was given. It returns running with the
// [[plugin]], [[plugin_signer]], the template and tools of now of [model], or of each [[model]]
// that running has, and the keys of all other settings that are not what
// running has, in the order of Keys: they take effect at a restart. An error
// names what is wrong as Read's does. A file that is gone, holds no setting or changed while it
// was read is one too, and so is one without what guards a key that goes on: see keepsGuards.
// seen is nil where somebody asked for the reload, so that the file is as it is meant. Otherwise it is
// what the file looked like when it was found to have changed, and one that looks cut is an error: see looksWhole.
func Reload(running Config, flags *Flags, lookup func(string) (string, bool), seen *filestamp.Stamp) (next Config,
	restart []string, err error) {
	asked, before := seen == nil, filestamp.Of(running.File)
	if !asked {
		before = *seen
	}
	l, err := Read(flags, lookup)
	if err != nil {
		return Config{}, nil, err
	}
	now := l.Config
	if err := l.follows(&running, before, asked); err != nil {
		return Config{}, nil, fmt.Errorf("read configuration: %s: %w", cmp.Or(now.File, running.File, stdinName), err)
	}
	next = running
	next.Plugin, next.Model.Template, next.Model.Tools = now.Plugin, now.Model.Template, now.Model.Tools
	next.PluginSigner, next.text = now.PluginSigner, now.text
	next.ModelList = slices.Clone(running.ModelList)
	for i := range next.ModelList {
		m := &next.ModelList[i]
		if at := slices.IndexFunc(now.ModelList, func(other Model) bool { return other.Name == m.Name }); at >= 0 {
			m.Template, m.Tools = now.ModelList[at].Template, now.ModelList[at].Tools
		}
	}
	return next, differing(nil, "", reflect.ValueOf(&next).Elem(), reflect.ValueOf(&now).Elem()), nil
}

// differing appends the keys whose values differ between two structs of one
// type, [[plugin]] left out.
func differing(keys []string, prefix string, a, b reflect.Value) []string {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		key := prefix + f.Tag.Get("toml")
		switch {
		case f.Name == "ModelList":
			keys = differingModels(keys, a.Field(i).Interface().([]Model), b.Field(i).Interface().([]Model))
		case f.Tag.Get("toml") == "-", f.Type == reflect.TypeFor[[]Plugin]():
		case f.Type.Kind() == reflect.Struct:
			keys = differing(keys, key+".", a.Field(i), b.Field(i))
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}

// differingModels appends the keys whose values differ between two lists of
// [[model]], or that of all when they are not of the same models.
func differingModels(keys []string, a, b []Model) []string {
	if !slices.EqualFunc(a, b, func(x, y Model) bool { return x.Name == y.Name }) {
		return append(keys, "model")
	}
	for i := range a {
		keys = differing(keys, fmt.Sprintf("model[%d].", i), reflect.ValueOf(&a[i]).Elem(),
			reflect.ValueOf(&b[i]).Elem())
	}
	return keys
}
