package config

import (
	"fmt"
	"math"
	"reflect"
)

// units converts the durations and sizes that a file has as bare numbers, which the decoder stores unchanged: bare
// durations are seconds. It rejects negative ones. given is the file.
func (c *Config) units(name string, text []byte, given map[string]any) error {
	u := &numbers{}
	v := reflect.ValueOf(c).Elem()
	for f, section := range v.Fields() {
		key := f.Tag.Get("toml")
		value, ok := find(given, key)
		if !ok {
			continue
		}
		if _, several := value.([]any); several && key == "model" {
			section = v.FieldByName("ModelList")
		}
		u.settle(section, key, value)
	}
	if u.err != nil {
		return fmt.Errorf("%s:%d: %w", name, lines(text)[u.at], u.err)
	}
	return nil
}

// numbers is the walk of units, with the first error and its key.
type numbers struct {
	at  string
	err error
}

// maxSeconds is the longest duration, about 292 years.
const maxSeconds = math.MaxInt64 / int64(second)

// settle walks the value v of the key at beside what the file gives for it.
func (u *numbers) settle(v reflect.Value, at string, given any) {
	long := v.Type() == reflect.TypeFor[Duration]()
	switch {
	case long || v.Type() == reflect.TypeFor[Size]():
		if n, bare := given.(int64); bare {
			u.take(v, at, n, long)
		}
	case v.Kind() == reflect.Struct:
		for f, inner := range v.Fields() {
			if value, ok := find(given, f.Tag.Get("toml")); ok {
				u.settle(inner, at+"."+f.Tag.Get("toml"), value)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		list, _ := given.([]any)
		for i := range min(v.Len(), len(list)) {
			u.settle(v.Index(i), fmt.Sprintf("%s[%d]", at, i), list[i])
		}
	}
}

// take gives v, a duration when long and else a size, the number n.
func (u *numbers) take(v reflect.Value, at string, n int64, long bool) {
	switch {
	case u.err != nil:
	case n < 0:
		u.at, u.err = at, fmt.Errorf("%s must be >= 0, given %d", at, n)
	case long && n > maxSeconds:
		u.at, u.err = at, fmt.Errorf("%s must be <= %d seconds, given %d", at, maxSeconds, n)
	case long:
		v.SetInt(n * int64(second))
	}
}
