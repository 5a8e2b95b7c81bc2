package value

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// smallDict is the number of entries up to which a scan is faster than a map.
const smallDict = 16

// Entry is a key and its value.
type Entry struct{ Key, Value Value }

// Dict is Python's dict: ordered by first insertion.
type Dict struct {
	entries []Entry
	strs    map[string]int // index of string keys, if there are more than smallDict
	others  map[string]int // index of other keys by hashKey
}

// NewDict makes a dict of entries with string keys, which must all differ.
func NewDict(entries ...Entry) *Dict { return &Dict{entries: entries} }

// NewDictSize makes an empty dict with room for n entries.
func NewDictSize(n int) *Dict { return &Dict{entries: make([]Entry, 0, n)} }

// Remove removes the entry of a string key.
func (d *Dict) Remove(key string) {
	if i := d.findStr(key); i >= 0 {
		rest := slices.Delete(d.entries, i, i+1)
		*d = Dict{}
		d.Fill(rest)
	}
}

// Fill adds entries with string keys. If a key occurs several times, it has the
// place of the first and the value of the last. Fill does not keep the slice.
func (d *Dict) Fill(entries []Entry) {
	for _, e := range entries {
		_ = d.Set(e.Key, e.Value) // string keys are hashable
	}
}

// Entries returns the entries in their order. The dict owns the slice.
func (d *Dict) Entries() []Entry { return d.entries }

// Type implements Value.
func (*Dict) Type() string { return "dict" }

// Len is the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// GetStr finds a string key.
func (d *Dict) GetStr(key string) (Value, bool) {
	if i := d.findStr(key); i >= 0 {
		return d.entries[i].Value, true
	}
	return nil, false
}

func (d *Dict) findStr(key string) int {
	if d.strs == nil {
		for i := range d.entries {
			if k, ok := d.entries[i].Key.(*Str); ok && k.s == key {
				return i
			}
		}
		return -1
	}
	if i, ok := d.strs[key]; ok {
		return i
	}
	return -1
}

// Find returns the index of key, or -1. The error is Python's TypeError for a
// key that cannot be hashed.
func (d *Dict) Find(key Value) (int, error) {
	if k, ok := key.(*Str); ok {
		return d.findStr(k.s), nil
	}
	h, err := HashKey(key)
	if err != nil {
		return -1, err
	}
	if i, ok := d.others[h]; ok {
		return i, nil
	}
	return -1, nil
}

// Get finds a key. The error is that of Find.
func (d *Dict) Get(key Value) (Value, bool, error) {
	i, err := d.Find(key)
	if i < 0 || err != nil {
		return nil, false, err
	}
	return d.entries[i].Value, true, nil
}

// Set adds or replaces key; a replaced entry keeps its place and its key.
func (d *Dict) Set(key, val Value) error {
	i, err := d.Find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.entries[i].Value = val
		return nil
	}
	i = len(d.entries)
	d.entries = append(d.entries, Entry{key, val})
	k, ok := key.(*Str)
	if !ok {
		h, _ := HashKey(key)
		if d.others == nil {
			d.others = map[string]int{}
		}
		d.others[h] = i
		return nil
	}
	if d.strs != nil {
		d.strs[k.s] = i
	} else if len(d.entries) > smallDict {
		d.index()
	}
	return nil
}

func (d *Dict) index() {
	d.strs = make(map[string]int, 2*len(d.entries))
	for i, e := range d.entries {
		if k, ok := e.Key.(*Str); ok {
			d.strs[k.s] = i
		}
	}
}

// Clone copies a dict, but not its values.
func (d *Dict) Clone() *Dict {
	c := &Dict{entries: append([]Entry(nil), d.entries...)}
	if d.strs != nil {
		c.index()
	}
	for h, i := range d.others {
		if c.others == nil {
			c.others = make(map[string]int, len(d.others))
		}
		c.others[h] = i
	}
	return c
}

// HashKey returns a text that is equal for values that are equal as keys in Python.
func HashKey(v Value) (string, error) {
	switch v := v.(type) {
	case *Str:
		return "s" + v.s, nil
	case NoneType:
		return "N", nil
	case Bool:
		if v {
			return "i1", nil
		}
		return "i0", nil
	case Int:
		return "i" + strconv.FormatInt(int64(v), 10), nil
	case *BigInt:
		return "i" + v.v.String(), nil
	case Float:
		f := float64(v)
		if f == math.Trunc(f) && !math.IsInf(f, 0) {
			i, _ := big.NewFloat(f).Int(nil)
			return "i" + i.String(), nil
		}
		return "f" + strconv.FormatFloat(f, 'g', -1, 64), nil
	case *Tuple:
		h := "("
		for _, item := range v.Items {
			s, err := HashKey(item)
			if err != nil {
				return "", err
			}
			h += strconv.Itoa(len(s)) + ":" + s
		}
		return h, nil
	case *Undefined:
		return "U", nil
	case *Range:
		return fmt.Sprintf("r%d,%d,%d", v.N, v.Start*min(v.N, 1), v.Step*min(max(v.N-1, 0), 1)), nil
	}
	return "", TypeError("unhashable type: '%s'", v.Type())
}
