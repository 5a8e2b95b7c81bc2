package hf

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// object reads a JSON object. It keeps the first error in err; later reads return defaults, so
// that a sequence of reads needs only one check at its end.
type object struct {
	file   string
	prefix string
	values map[string]json.RawMessage
	read   map[string]bool
	// names maps a key to the keys that the family has instead; the first that is present is read.
	names map[string][]string
	err   error
}

func parseObject(file string, data []byte) (*object, error) {
	o := &object{file: file, read: map[string]bool{}}
	if err := json.Unmarshal(data, &o.values); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", file, ErrConfig, err)
	}
	if o.values == nil {
		return nil, fmt.Errorf("%s: %w: is null, want an object", file, ErrConfig)
	}
	return o, nil
}

// name returns the name that key has in this file.
func (o *object) name(key string) string {
	own, ok := o.names[key]
	if !ok {
		return key
	}
	for _, k := range own {
		if _, ok := o.values[k]; ok {
			return k
		}
	}
	return own[0]
}

// fail records the first error; key is relative to the object.
func (o *object) fail(key, format string, a ...any) {
	if key = o.name(key); o.err == nil {
		o.err = fmt.Errorf("%s: %w: %s%s: %s", o.file, ErrConfig, o.prefix, key, fmt.Sprintf(format, a...))
	}
}

// raw returns the value of key and whether it is present and not null.
func (o *object) raw(key string) (json.RawMessage, bool) {
	for _, alias := range o.names[key] { // of which a file may have several, from several libraries
		o.read[alias] = true
	}
	key = o.name(key)
	o.read[key] = true
	v, ok := o.values[key]
	return v, ok && string(v) != "null"
}

// has reports whether key is present, null included.
func (o *object) has(key string) bool { _, ok := o.values[o.name(key)]; return ok }

// shorten shortens a value for an error text.
func shorten(v []byte) string {
	s := strings.TrimSpace(string(v))
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// int reads an integer in [lo, hi]; an absent or null key gives def.
func (o *object) int(key string, def, lo, hi int) int {
	v, ok := o.raw(key)
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || f < float64(lo) || f > float64(hi) {
		o.fail(key, "want an integer from %d to %d, got %s", lo, hi, shorten(v))
		return def
	}
	return int(f)
}

// requireInt is int for a mandatory key.
func (o *object) requireInt(key string, lo, hi int) int {
	if _, ok := o.raw(key); !ok {
		o.fail(key, "is missing")
		return lo
	}
	return o.int(key, lo, lo, hi)
}

// float reads a finite number in [lo, hi].
func (o *object) float(key string, def, lo, hi float64) float64 {
	v, ok := o.raw(key)
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f >= lo && f <= hi) {
		o.fail(key, "want a number from %g to %g, got %s", lo, hi, shorten(v))
		return def
	}
	return f
}

func (o *object) bool(key string, def bool) bool {
	v, ok := o.raw(key)
	if !ok {
		return def
	}
	var b bool
	if err := json.Unmarshal(v, &b); err != nil {
		o.fail(key, "want true or false, got %s", shorten(v))
	}
	return b
}

func (o *object) string(key, def string) string {
	v, ok := o.raw(key)
	if !ok {
		return def
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		o.fail(key, "want a string, got %s", shorten(v))
	}
	return s
}

// strings reads a list of strings; nil when absent.
func (o *object) strings(key string) []string {
	v, ok := o.raw(key)
	if !ok {
		return nil
	}
	var s []string
	if err := json.Unmarshal(v, &s); err != nil {
		o.fail(key, "want a list of strings, got %s", shorten(v))
	}
	return s
}

// floats reads a list of n finite numbers in [lo, hi]; nil when absent.
func (o *object) floats(key string, n int, lo, hi float64) []float64 {
	v, ok := o.raw(key)
	if !ok {
		return nil
	}
	var list []float64
	if err := json.Unmarshal(v, &list); err != nil || len(list) != n {
		o.fail(key, "want a list of %d numbers, got %s", n, shorten(v))
		return nil
	}
	for i, x := range list {
		if !(x >= lo && x <= hi) {
			o.fail(key, "number %d is %g, want from %g to %g", i, x, lo, hi)
			return nil
		}
	}
	return list
}

// object reads a nested object; nil when absent or null.
func (o *object) object(key string) *object {
	v, ok := o.raw(key)
	if !ok {
		return nil
	}
	sub := &object{file: o.file, prefix: o.prefix + key + ".", read: map[string]bool{}}
	if err := json.Unmarshal(v, &sub.values); err != nil || sub.values == nil {
		o.fail(key, "want an object, got %s", shorten(v))
		return nil
	}
	return sub
}

// ids reads a token id or a list of them.
func (o *object) ids(key string) []uint32 {
	v, ok := o.raw(key)
	if !ok {
		return nil
	}
	var list []uint32
	if err := json.Unmarshal(v, &list); err == nil {
		return list
	}
	var one uint32
	if err := json.Unmarshal(v, &one); err != nil {
		o.fail(key, "want a token id or a list of them, got %s", shorten(v))
		return nil
	}
	return []uint32{one}
}
