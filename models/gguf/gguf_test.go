package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/gguf/gguftest"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/models/tensors/tensorstest"
)

// openTypes opens a file with a tensor of each type, until the test ends.
func openTypes(t *testing.T) *File {
	t.Helper()
	f, err := Open(os.DirFS("testdata"), "types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// openFloats opens the values of these tensors as the Python package gguf gives them.
func openFloats(t *testing.T) *tensors.Set {
	t.Helper()
	f, err := safetensors.OpenFile(filepath.Join("testdata", "types.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestTypes: every type has the values that the Python package gguf gives, also from the middle of a block on.
func TestTypes(t *testing.T) {
	f, want := openTypes(t), openFloats(t)
	if len(want.Names()) != len(codings)-1 { // Python has no numbers of BF16
		t.Errorf("%d types are tested, there are %d", len(want.Names()), len(codings))
	}
	for _, name := range want.Names() {
		w, err := want.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Tensors.Tensor(name)
		if err != nil || !slices.Equal(g.Shape, w.Shape) {
			t.Errorf("%s: %+v, %v", name, g, err)
			continue
		}
		x, y := make([]float32, w.Len()), make([]float32, w.Len())
		if err := errors.Join(w.Floats(x, 0), g.Floats(y, 0)); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) && x[i] != y[i] {
				t.Errorf("%s: number %d is %g, want %g", name, i, y[i], x[i])
				break
			}
		}
		from, n := 1, w.Len()-2
		part := make([]float32, n)
		if err := g.Floats(part, from); err != nil || !slices.Equal(part, y[from:from+n]) {
			t.Errorf("%s: elements %d to %d are others when they are read alone (%v)", name, from, from+n, err)
		}
	}
}

// TestIntegers: the integers of blocks, times the scale plus the offset, are their values.
func TestIntegers(t *testing.T) {
	f := openTypes(t)
	seen := 0
	for _, name := range f.Tensors.Names() {
		g, err := f.Tensors.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		form := g.Form()
		if form.Bits == 0 || form.Bits == tensors.SixBits {
			continue
		}
		seen++
		blocks := 0
		for x := range tensorstest.Blocks(t, g) {
			blocks++
			scale, offset := float64(x.Scale), float64(x.Offset)
			for k, c := range x.Codes {
				w := float64(x.Values[k])
				d := math.Abs(float64(tensorstest.Number(form, c))*scale + offset - w)
				if d > 1e-5*math.Abs(offset)+1e-6*math.Abs(w) {
					t.Fatalf("%s: row %d, element %d is %d * %g + %g, want %g", name, x.Row, x.Block*32+k, c, scale,
						offset, w)
				}
			}
		}
		if blocks != 3*512/tensors.IntegerBlock {
			t.Errorf("%s: %d blocks", name, blocks)
		}
	}
	if seen < 9 {
		t.Errorf("%d types have integers", seen)
	}
}

// TestFactored: the codes of blocks that have factors, times these and the scale, plus the offset times its factor, are
// to the last bit the values that the Python package gguf gives.
func TestFactored(t *testing.T) {
	f, want := openTypes(t), openFloats(t)
	for _, name := range []string{"Q4_K", "Q5_K", "IQ4_XS"} {
		g, err := f.Tensors.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := want.Tensor(name)
		x := make([]float32, w.Len())
		if err := errors.Join(err, w.Floats(x, 0)); err != nil {
			t.Fatal(err)
		}
		if form := g.Form(); !form.Factors || !form.Offsets {
			t.Fatalf("%s: %+v", name, form)
		}
		codes, scales, offsets := make([]int8, tensors.FactoredBlock), make([]byte, 8), make([]byte, 8)
		for at, value := range x {
			i, k := at/512, at%512
			scale, offset := g.Factored(codes, scales, offsets, i, k/256)
			part := k % 256 / 32
			step, low := scale*float32(scales[part]), offset*float32(offsets[part])
			if got := float32(step*float32(codes[k%256])) + low; got != value {
				t.Fatalf("%s: row %d, element %d is %g, want %g", name, i, k, got, value)
			}
			if tensors.RoundHalf(scale) != scale || tensors.RoundHalf(offset) != offset || scales[part] > 63 ||
				offsets[part] > 63 {
				t.Fatalf("%s: %g and %g are no 16-bit floats, or %v and %v have more than 6 bits", name, scale, offset,
					scales, offsets)
			}
		}
	}
}

// TestMetadata: keys have their values and kinds.
func TestMetadata(t *testing.T) {
	f := openTypes(t)
	if s, err := f.String("text"); s != "grüße" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if s, err := f.Strings("texts"); !slices.Equal(s, []string{"", "a", "▁b"}) || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if n, err := f.Numbers("numbers"); !slices.Equal(n, []float64{1, -2, 3}) || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	for key, want := range map[string]float64{"small": 1e-6, "yes": 1} {
		if n, ok, err := f.Number(key); n != want || !ok || err != nil {
			t.Errorf("%s: %g, %v, %v", key, n, ok, err)
		}
	}
	if _, ok, err := f.Number("none"); ok || err != nil {
		t.Errorf("a key that is absent: %v, %v", ok, err)
	}
	_, a := f.String("numbers")
	_, _, b := f.Number("text")
	_, c := f.Strings("numbers")
	_, d := f.Numbers("text")
	for _, err := range []error{a, b, c, d} {
		if !errors.Is(err, tensors.ErrFormat) || !strings.HasPrefix(err.Error(), "types.gguf: ") {
			t.Errorf("a value of another kind: %v", err)
		}
	}
}

// image writes a file: numbers as they are, texts with their lengths.
func image(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(p))), p...)
		case []byte:
			b = append(b, p...)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, p)
		case int:
			b = binary.LittleEndian.AppendUint64(b, uint64(p))
		}
	}
	return b
}

func begin(tensors, keys int) []byte { return image([]byte(magic), uint32(3), tensors, keys) }

// small is a file of one tensor of two blocks.
func small() []byte {
	head := image(begin(1, 1), "a", uint32(kindU32), uint32(5), "w", uint32(2), 32, 2, uint32(8), 0)
	return append(append(head, make([]byte, 31-(len(head)+31)%32)...), make([]byte, 68)...)
}

func TestRefused(t *testing.T) {
	good := small()
	changed := func(at int, to ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], to)
		return b
	}
	tensor := len(begin(0, 0)) + len(image("a", uint32(0), uint32(0))) // where the tensor's entry begins
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":         {nil, "the first bytes: 4 bytes at byte 0, but the file has only 0 more"},
		"other":         {[]byte("PK\x03\x04....................."), `begins with "PK\x03\x04", want "GGUF"`},
		"version 1":     {changed(4, 1), "has version 1 of the format, want 2 or 3"},
		"big-endian":    {changed(4, 0, 0, 0, 3), "is written for big-endian processors"},
		"tensors":       {changed(8, 0, 0, 0, 1), "has 16777216 tensors and 1 keys, at most 1048576 and 65536 are allowed"},
		"cut key":       {good[:26], "a key: 8 bytes at byte 24, but the file has only 2 more: it is cut off"},
		"long key":      {changed(24, 0, 0, 2), "a key has 131072 bytes, at most 256 are allowed"},
		"odd key":       {changed(32, 7), "a key holds a character that does not print, at byte 32"},
		"type of value": {changed(33, 77), "a: values of type 77 are unknown"},
		"list of lists": {image(begin(0, 1), "a", uint32(kindArray), uint32(kindArray), 1),
			"lists of lists are not supported"},
		"long list": {image(begin(0, 1), "a", uint32(kindArray), uint32(kindU64), 1<<62),
			"a: 18446744073709551615 bytes"},
		"long texts": {image(begin(0, 1), "a", uint32(kindArray), uint32(kindString), 1<<40, "x"),
			"a: 8 bytes at byte"},
		"key twice": {image(begin(0, 2), "a", uint32(kindBool), []byte{1}, "a", uint32(kindBool), []byte{1}),
			`the key "a" is there twice`},
		"alignment":      {image(begin(0, 1), alignmentKey, uint32(kindU32), uint32(12)), "general.alignment: is 12, want a power of two"},
		"rank":           {changed(tensor+9, 5), `tensor "w" has 5 dimensions, at most 4 are allowed`},
		"size":           {changed(tensor+13, 0, 0, 0, 0, 0, 0, 0, 0x7f), `tensor "w" has more elements than a file can hold`},
		"type of tensor": {changed(tensor+29, 99), `tensor "w": type 99 is unknown`},
		"unread type":    {changed(tensor+29, 16), `tensor "w": type IQ2_XXS is not supported`},
		"part of block":  {changed(tensor+29, 12), `tensor "w": rows of 32 are not whole blocks of 256, which Q4_K has`},
		"cut off":        {good[:len(good)-1], `tensor "w" has 68 bytes from byte 96 on, but the file has 163: it is cut off`},
		"far away":       {changed(tensor+33, 255, 255, 255, 255, 255, 255, 255, 255), "it is cut off"},
		"overlap": {append(image(begin(2, 0), "a", uint32(1), 4, uint32(0), 0, "b", uint32(1), 4, uint32(0), 8),
			make([]byte, 64)...), `tensor "b" begins at byte 8 of the data, inside tensor "a", which ends at 16`},
		"twice": {append(image(begin(2, 0), "a", uint32(1), 1, uint32(0), 0, "a", uint32(1), 1, uint32(0), 4),
			make([]byte, 64)...), `tensor "a" is also in m.gguf`},
	} {
		f, err := Open(fstest.MapFS{"m.gguf": {Data: c.data}}, "m.gguf")
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, tensors.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
	f, err := Open(fstest.MapFS{"m.gguf": {Data: good}}, "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestParts: a file in parts is one, and one that lacks a part or a tensor is refused.
func TestParts(t *testing.T) {
	one := func(name string, total int) []byte {
		b := image(begin(1, 1), "split.tensors.count", uint32(kindU64), total, name, uint32(1), 1, uint32(0), 0)
		return append(b, make([]byte, 64)...)
	}
	files := fstest.MapFS{"m-00001-of-00002.gguf": {Data: one("a", 2)}, "m-00002-of-00002.gguf": {Data: one("b", 2)}}
	f, err := Open(files, "m-00001-of-00002.gguf")
	if err != nil || !slices.Equal(f.Tensors.Names(), []string{"a", "b"}) {
		t.Fatal(f, err)
	}
	f.Close()
	if _, err := Open(files, "m-00002-of-00002.gguf"); err == nil || !strings.Contains(err.Error(),
		"not the first part") {
		t.Errorf("%v", err)
	}
	files["m-00001-of-00002.gguf"].Data = one("a", 3)
	if _, err := Open(files, "m-00001-of-00002.gguf"); err == nil ||
		!strings.Contains(err.Error(), "the parts have 2 tensors, want 3") {
		t.Errorf("%v", err)
	}
	delete(files, "m-00002-of-00002.gguf")
	if _, err := Open(files, "m-00001-of-00002.gguf"); !errors.Is(err, tensors.ErrMissing) {
		t.Errorf("%v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(small())
	f.Add(image(begin(0, 1), "a", uint32(kindArray), uint32(kindString), 2, "x", ""))
	for number, c := range codings { // two rows of one block of 256, or several smaller ones
		data := bytes.Repeat([]byte{0x35, 0x2c, 0xf7}, 2*256/c.elements*c.bytes)[:2*256/c.elements*c.bytes]
		f.Add(gguftest.File(nil, []gguftest.Tensor{{Name: "w", Type: number, Shape: []int{2, 256}, Data: data}}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Open(fstest.MapFS{"m.gguf": {Data: data}}, "m.gguf")
		if err != nil {
			if !errors.Is(err, tensors.ErrFormat) {
				t.Errorf("error %v does not wrap ErrFormat", err)
			}
			return
		}
		defer g.Close()
		for key := range g.values { // of any kind
			g.String(key)
			g.Strings(key)
			g.Number(key)
			g.Numbers(key)
		}
		for _, name := range g.Tensors.Names() {
			tensor, err := g.Tensors.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if n := tensor.Len(); n < 1<<16 {
				tensor.Floats(make([]float32, n), 0)
				tensorstest.ReadIntegers(tensor)
			}
		}
	})
}
