package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"tgi/models/tensors"
)

// Limits of a header. Those of lists and texts are the bytes that are left in the file.
const (
	maxKeys      = 1 << 16
	maxTensors   = 1 << 20
	maxRank      = 4
	maxName      = 256
	maxAlignment = 1 << 20
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
)

// entry is what the header says of one tensor.
type entry struct {
	name   string
	coding *coding
	shape  []int64
	at     uint64 // from the beginning of the data
	bytes  uint64
}

// reader reads a header. It keeps the first error; what is read after it is zero.
type reader struct {
	data []byte // the whole file
	at   int
	err  error
}

func (r *reader) fail(format string, a ...any) {
	r.err = cmp.Or(r.err, fmt.Errorf(format, a...))
}

// take returns the next n bytes.
func (r *reader) take(n uint64, what string) []byte {
	if left := uint64(len(r.data) - r.at); r.err == nil && n > left {
		r.fail("%s: %d bytes at byte %d, but the file has only %d more: it is cut off", what, n, r.at, left)
	}
	if r.err != nil {
		return nil
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at : r.at]
}

func (r *reader) u32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name reads a key or a tensor's name, which are of printable ASCII.
func (r *reader) name(what string) string {
	n := r.u64(what)
	if n > maxName {
		r.fail("%s has %d bytes, at most %d are allowed", what, n, maxName)
	}
	s := string(r.take(n, what))
	if i := strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }); i >= 0 {
		r.fail("%s holds a character that does not print, at byte %d", what, r.at-len(s)+i)
	}
	return s
}

// value reads a value of a kind.
func (r *reader) value(k kind, key string) value {
	from := r.at
	switch {
	case k == kindString:
		r.take(r.u64(key), key)
		return value{kind: k, count: 1, data: r.data[from:r.at]}
	case k == kindArray:
		return r.list(key)
	case k > kindF64:
		r.fail("%s: values of type %d are unknown", key, k)
	default:
		return value{kind: k, count: 1, data: r.take(uint64(kindBytes[k]), key)}
	}
	return value{}
}

// list reads a list.
func (r *reader) list(key string) value {
	k, n := kind(r.u32(key)), r.u64(key)
	from := r.at
	switch {
	case k == kindArray:
		r.fail("%s: lists of lists are not supported", key)
	case k > kindF64:
		r.fail("%s: values of type %d are unknown", key, k)
	case k == kindString:
		for i := uint64(0); i < n && r.err == nil; i++ {
			r.take(r.u64(key), key)
		}
	default:
		hi, size := bits.Mul64(n, uint64(kindBytes[k]))
		if hi != 0 {
			size = math.MaxUint64
		}
		r.take(size, key)
	}
	if r.err != nil {
		return value{}
	}
	return value{kind: k, list: true, count: int(n), data: r.data[from:r.at]}
}

// readHeader reads the header of a file of which data is the whole content (or its mapping) and returns the tensors in
// order of their bytes, and where the bytes begin.
func readHeader(file string, data []byte) (meta *Metadata, entries []entry, body uint64, err error) {
	r := &reader{data: data}
	meta, entries, body = r.header(file)
	if r.err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w: %w", file, tensors.ErrFormat, r.err)
	}
	return meta, entries, body, nil
}

func (r *reader) header(file string) (meta *Metadata, entries []entry, body uint64) {
	if m := r.take(4, "the first bytes"); r.err == nil && string(m) != magic {
		r.fail("begins with %q, want %q", m, magic)
	}
	switch version := r.u32("the version"); {
	case r.err != nil:
	case version > 1<<16:
		r.fail("is written for big-endian processors")
	case version != 2 && version != 3:
		r.fail("has version %d of the format, want 2 or 3", version)
	}
	n, keys := r.u64("the number of tensors"), r.u64("the number of keys")
	if n > maxTensors || keys > maxKeys {
		r.fail("has %d tensors and %d keys, at most %d and %d are allowed", n, keys, maxTensors, maxKeys)
	}
	meta = &Metadata{file: file, values: map[string]value{}}
	for i := uint64(0); i < keys && r.err == nil; i++ {
		key := r.name("a key")
		if meta.Has(key) {
			r.fail("the key %q is there twice", key)
		}
		meta.values[key] = r.value(kind(r.u32(key)), key)
	}
	for i := uint64(0); i < n && r.err == nil; i++ {
		entries = append(entries, r.entry())
	}
	if r.err != nil {
		return nil, nil, 0
	}
	alignment, ok, err := meta.Number(alignmentKey)
	if !ok {
		alignment = defaultAlignment
	}
	if a := int(alignment); err != nil || a < 1 || a > maxAlignment || float64(a) != alignment || a&(a-1) != 0 {
		r.fail("%s: is %g, want a power of two of at most %d", alignmentKey, alignment, maxAlignment)
		return nil, nil, 0
	}
	body = (uint64(r.at) + uint64(alignment) - 1) / uint64(alignment) * uint64(alignment)
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes,
			b.bytes))
	})
	r.err = checkLayout(entries, body, uint64(len(r.data)))
	return meta, entries, body
}

// entry reads what the header says of one tensor.
func (r *reader) entry() (e entry) {
	e.name = r.name("a tensor's name")
	what := fmt.Sprintf("tensor %q", e.name)
	rank := r.u32(what)
	if rank > maxRank {
		r.fail("%s has %d dimensions, at most %d are allowed", what, rank, maxRank)
	}
	elements := uint64(1)
	for i := uint32(0); i < rank && r.err == nil; i++ {
		d := r.u64(what)
		hi, lo := bits.Mul64(elements, d)
		if hi != 0 || lo > math.MaxInt64/16 {
			r.fail("%s has more elements than a file can hold", what)
		}
		elements = lo
		e.shape = append(e.shape, int64(d))
	}
	number := r.u32(what)
	e.at = r.u64(what)
	if r.err != nil {
		return e
	}
	row := int64(1)
	if len(e.shape) > 0 {
		row = e.shape[0]
	}
	slices.Reverse(e.shape) // the format has the innermost dimension first
	e.coding = codings[number]
	if e.coding == nil {
		r.fail("%s: %w", what, unknownType(number))
		return e
	}
	if row%int64(e.coding.elements) != 0 {
		r.fail("%s: rows of %d are not whole blocks of %d, which %s has", what, row, e.coding.elements, e.coding.name)
	}
	e.bytes = elements / uint64(e.coding.elements) * uint64(e.coding.bytes)
	return e
}

// checkLayout holds that the sorted tensors are inside the file and do not overlap.
func checkLayout(entries []entry, body, size uint64) error {
	var end uint64
	prev := ""
	for _, e := range entries {
		switch {
		case e.at < end:
			return fmt.Errorf("tensor %q begins at byte %d of the data, inside tensor %q, which ends at %d", e.name, e.at, prev,
				end)
		case body > size || e.at > size-body || e.bytes > size-body-e.at:
			return fmt.Errorf("tensor %q has %d bytes from byte %d on, but the file has %d: it is cut off", e.name, e.bytes,
				body+e.at, size)
		}
		end, prev = e.at+e.bytes, e.name
	}
	return nil
}

// unknownType says what is known of a type that cannot be read.
func unknownType(number uint32) error {
	if name, ok := otherTypes[number]; ok {
		return fmt.Errorf("type %s is not supported", name)
	}
	return errors.New("type " + strconv.Itoa(int(number)) + " is unknown")
}

// shortest returns the number of 64 bits with the shortest decimal form that gives f.
func shortest(f float32) float64 {
	x, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil { // infinity and NaN have forms too
		return float64(f)
	}
	return x
}
