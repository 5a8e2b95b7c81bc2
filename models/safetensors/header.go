package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sort"

	"tgi/models/tensors"
)

// maxHeader bounds the JSON header, as the reference implementation does: a
// corrupt length must not make the reader take gigabytes for JSON.
const maxHeader = 100 << 20

// maxRank bounds a tensor's number of dimensions; real weights have at most 4.
const maxRank = 16

// entry is what the header says of one tensor. Offsets count from the end of
// the header.
type entry struct {
	name       string
	dtype      tensors.DType
	shape      []int64
	begin, end int64
}

// parseHeader reads the header of a file of which data is the whole content
// (or its mapping) and returns the tensors in order of their bytes, and where
// the bytes begin.
func parseHeader(file string, data []byte) (entries []entry, body int64, err error) {
	fail := func(format string, a ...any) ([]entry, int64, error) {
		return nil, 0, fmt.Errorf("%s: %w: %s", file, tensors.ErrFormat, fmt.Sprintf(format, a...))
	}
	if len(data) < 8 {
		return fail("file has %d bytes, the header length alone takes 8", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return fail("header length is %d, at most %d is allowed", n, maxHeader)
	}
	if n > uint64(len(data)-8) {
		return fail("header length is %d, but only %d bytes follow: the file is truncated", n, len(data)-8)
	}
	entries, err = decodeEntries(data[8 : 8+n])
	if err != nil {
		return fail("header: %v", err)
	}
	sort.Slice(entries, func(i, j int) bool {
		if entries[i].begin != entries[j].begin {
			return entries[i].begin < entries[j].begin
		}
		return entries[i].end < entries[j].end
	})
	body = 8 + int64(n)
	if err := checkLayout(entries, int64(len(data))-body); err != nil {
		return fail("%v", err)
	}
	return entries, body, nil
}

// decodeEntries walks the header's JSON object by token, because a decoder
// into a map would keep the last of two tensors with one name in silence.
func decodeEntries(header []byte) ([]entry, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("is not a JSON object")
	}
	var entries []entry
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := t.(string) // the decoder only yields string keys here
		if seen[name] {
			return nil, fmt.Errorf("tensor %q appears twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var meta map[string]string
			if err := dec.Decode(&meta); err != nil {
				return nil, fmt.Errorf("__metadata__ is not an object of strings: %v", err)
			}
			continue
		}
		e, err := decodeEntry(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %v", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("ends early: %v", err)
	}
	if rest, err := io.ReadAll(dec.Buffered()); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("has data after the JSON object")
	}
	return entries, nil
}

func decodeEntry(dec *json.Decoder, name string) (entry, error) {
	var raw struct {
		DType   *tensors.DType `json:"dtype"`
		Shape   []int64        `json:"shape"`
		Offsets []int64        `json:"data_offsets"`
	}
	if err := dec.Decode(&raw); err != nil {
		return entry{}, err
	}
	switch {
	case raw.DType == nil:
		return entry{}, fmt.Errorf("has no dtype")
	case raw.Shape == nil:
		return entry{}, fmt.Errorf("has no shape")
	case len(raw.Offsets) != 2:
		return entry{}, fmt.Errorf("data_offsets has %d numbers, want 2", len(raw.Offsets))
	}
	e := entry{name: name, dtype: *raw.DType, shape: raw.Shape, begin: raw.Offsets[0], end: raw.Offsets[1]}
	want, err := byteLen(e.dtype, e.shape)
	if err != nil {
		return entry{}, err
	}
	if e.begin < 0 || e.end < e.begin {
		return entry{}, fmt.Errorf("data_offsets are [%d, %d], want 0 <= begin <= end", e.begin, e.end)
	}
	if got := e.end - e.begin; got != want {
		return entry{}, fmt.Errorf("%s of shape %v takes %d bytes, data_offsets span %d", e.dtype, e.shape, want, got)
	}
	return e, nil
}

// byteLen returns the bytes that a tensor takes, with every overflow caught.
func byteLen(d tensors.DType, shape []int64) (int64, error) {
	width := d.Bits()
	if width == 0 {
		return 0, fmt.Errorf("dtype %q is unknown", string(d))
	}
	if len(shape) > maxRank {
		return 0, fmt.Errorf("shape has %d dimensions, at most %d are allowed", len(shape), maxRank)
	}
	total := uint64(width)
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		hi, lo := bits.Mul64(total, uint64(dim))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		total = lo
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("%s of shape %v does not fill whole bytes", d, shape)
	}
	return int64(total / 8), nil
}

// checkLayout holds that the sorted tensors tile the body exactly, as the
// format demands: no overlap, no hole, nothing past the end.
func checkLayout(entries []entry, size int64) error {
	var at int64
	prev := ""
	for _, e := range entries {
		switch {
		case e.end > size:
			return fmt.Errorf("tensor %q ends at byte %d of the data, but the file has %d: it is truncated", e.name,
				e.end, size)
		case e.begin < at:
			return fmt.Errorf("tensor %q begins at byte %d of the data, inside tensor %q, which ends at %d", e.name,
				e.begin, prev, at)
		case e.begin > at:
			return fmt.Errorf("bytes %d to %d of the data, before tensor %q, belong to no tensor", at, e.begin, e.name)
		}
		at, prev = e.end, e.name
	}
	if at != size {
		return fmt.Errorf("%d bytes follow the last tensor, want none", size-at)
	}
	return nil
}
