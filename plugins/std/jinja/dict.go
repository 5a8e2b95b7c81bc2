package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// smallDict is the number of entries up to which a scan beats a map.
const smallDict = 16

type entry struct{ key, val Value }

// Dict is Python's dict: ordered by first insertion. Keys are never removed.
type Dict struct {
	entries []entry
	strs    map[string]int // index of string keys, once there are more than smallDict
	others  map[string]int // index of other keys by hashKey
}

// fill adds entries with string keys, of which the last of a key counts, at the
// place of the first. The slice is not kept.
func (d *Dict) fill(entries []entry) {
	for _, e := range entries {
		_ = d.set(e.key, e.val) // string keys hash
	}
}

func (*Dict) pyType() string { return "dict" }

func (d *Dict) len() int { return len(d.entries) }

// getStr finds a string key.
func (d *Dict) getStr(key string) (Value, bool) {
	if i := d.findStr(key); i >= 0 {
		return d.entries[i].val, true
	}
	return nil, false
}

func (d *Dict) findStr(key string) int {
	if d.strs == nil {
		for i := range d.entries {
			if k, ok := d.entries[i].key.(*Str); ok && k.s == key {
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

// find gives the index of key, or -1. The error is Python's TypeError for a
// key that cannot be hashed.
func (d *Dict) find(key Value) (int, error) {
	if k, ok := key.(*Str); ok {
		return d.findStr(k.s), nil
	}
	h, err := hashKey(key)
	if err != nil {
		return -1, err
	}
	if i, ok := d.others[h]; ok {
		return i, nil
	}
	return -1, nil
}

func (d *Dict) get(key Value) (Value, bool, error) {
	i, err := d.find(key)
	if i < 0 || err != nil {
		return nil, false, err
	}
	return d.entries[i].val, true, nil
}

// set adds or replaces key; a replaced entry keeps its place and its key.
func (d *Dict) set(key, val Value) error {
	i, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.entries[i].val = val
		return nil
	}
	i = len(d.entries)
	d.entries = append(d.entries, entry{key, val})
	k, ok := key.(*Str)
	if !ok {
		h, _ := hashKey(key)
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
		if k, ok := e.key.(*Str); ok {
			d.strs[k.s] = i
		}
	}
}

func (d *Dict) clone() *Dict {
	c := &Dict{entries: append([]entry(nil), d.entries...)}
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

// hashKey gives equal values equal texts, as Python's hash and == together do.
func hashKey(v Value) (string, error) {
	switch v := v.(type) {
	case *Str:
		return "s" + v.s, nil
	case noneType:
		return "N", nil
	case Bool:
		if v {
			return "i1", nil
		}
		return "i0", nil
	case Int:
		return "i" + strconv.FormatInt(int64(v), 10), nil
	case *bigInt:
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
		for _, item := range v.items {
			s, err := hashKey(item)
			if err != nil {
				return "", err
			}
			h += strconv.Itoa(len(s)) + ":" + s
		}
		return h, nil
	case *Undefined:
		return "U", nil
	case *rangeObj:
		return fmt.Sprintf("r%d,%d,%d", v.n, v.start*min(v.n, 1), v.step*min(max(v.n-1, 0), 1)), nil
	}
	return "", typeError("unhashable type: '%s'", v.pyType())
}
