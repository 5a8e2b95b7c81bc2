package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"tgi/models/tensors"
)

// kind is the type of a value.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// kindBytes are the sizes of values; those of strings and arrays are written with them.
var kindBytes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// value is one value of the metadata, or a list of values of one kind.
type value struct {
	kind  kind
	list  bool
	count int
	data  []byte // in the file: of strings with their lengths
}

// Metadata are the keys of a file and their values.
type Metadata struct {
	file   string
	values map[string]value
}

// Has reports whether there is such a key.
func (m *Metadata) Has(key string) bool { _, ok := m.values[key]; return ok }

// fail is an error about a key.
func (m *Metadata) fail(key, format string, a ...any) error {
	return fmt.Errorf("%s: %w: %s: %s", m.file, tensors.ErrFormat, key, fmt.Sprintf(format, a...))
}

// String returns a text, "" if the key is absent.
func (m *Metadata) String(key string) (string, error) {
	v, ok := m.values[key]
	switch {
	case !ok:
		return "", nil
	case v.kind != kindString || v.list:
		return "", m.fail(key, "is no string")
	}
	return string(v.data[8:]), nil
}

// Number returns a number or a truth value, which is 0 or 1; ok is false if the key is absent.
func (m *Metadata) Number(key string) (n float64, ok bool, err error) {
	v, ok := m.values[key]
	switch {
	case !ok:
		return 0, false, nil
	case v.kind == kindString || v.list:
		return 0, false, m.fail(key, "is no number")
	}
	return v.number(0), true, nil
}

// Numbers returns a list of numbers or truth values, nil if the key is absent; a single one is a list of one.
func (m *Metadata) Numbers(key string) ([]float64, error) {
	v, ok := m.values[key]
	switch {
	case !ok:
		return nil, nil
	case v.kind == kindString:
		return nil, m.fail(key, "is no list of numbers")
	}
	out := make([]float64, v.count)
	for i := range out {
		out[i] = v.number(i)
	}
	return out, nil
}

// IsList reports whether the value of a key is a list.
func (m *Metadata) IsList(key string) bool { return m.values[key].list }

// Strings returns a list of texts, nil if the key is absent.
func (m *Metadata) Strings(key string) ([]string, error) {
	v, ok := m.values[key]
	switch {
	case !ok:
		return nil, nil
	case v.kind != kindString || !v.list:
		return nil, m.fail(key, "is no list of strings")
	}
	out, at := make([]string, v.count), v.data
	for i := range out {
		n := binary.LittleEndian.Uint64(at) + 8 // both were checked when the header was read
		out[i], at = string(at[8:n]), at[n:]
	}
	return out, nil
}

// number returns element i of numbers.
func (v value) number(i int) float64 {
	at := v.data[i*kindBytes[v.kind]:]
	switch v.kind {
	case kindU8, kindBool:
		return float64(at[0])
	case kindI8:
		return float64(int8(at[0]))
	case kindU16:
		return float64(binary.LittleEndian.Uint16(at))
	case kindI16:
		return float64(int16(binary.LittleEndian.Uint16(at)))
	case kindU32:
		return float64(binary.LittleEndian.Uint32(at))
	case kindI32:
		return float64(int32(binary.LittleEndian.Uint32(at)))
	case kindF32: // as it was written: 1e-6 and not 9.999999974752427e-07
		return shortest(math.Float32frombits(binary.LittleEndian.Uint32(at)))
	case kindU64:
		return float64(binary.LittleEndian.Uint64(at))
	case kindI64:
		return float64(int64(binary.LittleEndian.Uint64(at)))
	default:
		return math.Float64frombits(binary.LittleEndian.Uint64(at))
	}
}
