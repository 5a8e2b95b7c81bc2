package safetensors

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/tensors"
	"tgi/models/tensors/tensorstest"
)

// parsed opens a file of the given tensors; their bytes follow each other.
func parsed(t *testing.T, specs []Spec, data []byte) *tensors.Set {
	t.Helper()
	var file bytes.Buffer
	if err := WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	set, err := OpenFS(fstest.MapFS{SingleFile: {Data: append(file.Bytes(), data...)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

// TestMXFP4: the numbers are those of the format's table, the lower half of a byte first, times the power of two of
// their block, also in a part and from the middle on.
func TestMXFP4(t *testing.T) {
	codes := make([]byte, 4*16)
	for i := range codes {
		codes[i] = byte(2*i%16) | byte((2*i+1)%16)<<4 // 0, 1, ... 15, 0, ...
	}
	scales := []byte{127, 128, 120, 255}
	set := parsed(t, []Spec{{Name: "w_blocks", DType: "U8", Shape: []int64{2, 1, 2, 16}},
		{Name: "w_scales", DType: "U8", Shape: []int64{2, 1, 2}}}, append(codes, scales...))
	if err := set.JoinMXFP4(); err != nil {
		t.Fatal(err)
	}
	if names := set.Names(); !slices.Equal(names, []string{"w"}) {
		t.Errorf("tensors %q", names)
	}
	w, err := set.Tensor("w")
	if err != nil || !slices.Equal(w.Shape, []int64{2, 1, 64}) || w.DType != tensors.MXFP4 {
		t.Fatalf("%+v, %v", w, err)
	}
	table := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	got := make([]float32, 128)
	if err := w.Floats(got, 0); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		want := table[i%16] * []float32{1, 2, 1.0 / 128, float32(math.NaN())}[i/32]
		if x != want && !(i >= 96 && x != x) {
			t.Errorf("number %d is %g, want %g", i, x, want)
		}
	}
	part := make([]float32, 3)
	if err := w.Part(1).Floats(part, 5); err != nil || !slices.Equal(part, got[69:72]) {
		t.Errorf("%v, %v, want %v", part, err, got[69:72])
	}
	if err := w.Floats(make([]float32, 2), 127); err == nil {
		t.Error("a range beyond the end was read")
	}
}

// TestMXFP4Integers: the codes, looked up in the form's table and times the scale of their block, are what Floats
// gives, in each part, row and block.
func TestMXFP4Integers(t *testing.T) {
	const parts, rows, blocks, size = 3, 2, 2, tensors.IntegerBlock
	r := rand.New(rand.NewPCG(4, 4))
	data := make([]byte, parts*rows*blocks*(size/2+1))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	scales := data[parts*rows*blocks*size/2:]
	for i := range scales {
		scales[i] = byte(100 + 5*i)
	}
	scales[1], scales[5], scales[10] = 0, 255, 254 // the smallest, none, and the largest
	set := parsed(t, []Spec{{Name: "w_blocks", DType: "U8", Shape: []int64{parts, rows, blocks, size / 2}},
		{Name: "w_scales", DType: "U8", Shape: []int64{parts, rows, blocks}}}, data)
	if err := set.JoinMXFP4(); err != nil {
		t.Fatal(err)
	}
	w, err := set.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	nans, seen := 0, 0
	for at := range parts {
		part := w.Part(at)
		form := part.Form()
		if form != (tensors.Form{Bits: 4, Table: tensors.TableMXFP4}) {
			t.Fatalf("form %+v", form)
		}
		for x := range tensorstest.Blocks(t, part) {
			seen++
			for i, c := range x.Codes {
				got := float32(tensorstest.Number(form, c))*x.Scale + x.Offset
				if got != got && x.Values[i] != x.Values[i] {
					nans++
				} else if got != x.Values[i] {
					t.Fatalf("part %d, row %d, block %d: code %d is %d times %g, which is %g, want %g", at, x.Row,
						x.Block, i, c, x.Scale, got, x.Values[i])
				}
			}
		}
	}
	if nans != size || seen != parts*rows*blocks {
		t.Errorf("%d numbers of %d blocks are none, want the %d of a block", nans, seen, size)
	}
}

// TestMXFP4Refuses: what is no pair of blocks and scales is refused by name.
func TestMXFP4Refuses(t *testing.T) {
	blocks := Spec{Name: "w_blocks", DType: "U8", Shape: []int64{1, 2, 16}}
	for name, c := range map[string]struct {
		specs []Spec
		want  string
	}{
		"no scales":    {[]Spec{blocks}, `has no "w_scales" beside it`},
		"other scales": {[]Spec{blocks, {Name: "w_scales", DType: "U8", Shape: []int64{1, 3}}}, "are no blocks"},
		"other type":   {[]Spec{blocks, {Name: "w_scales", DType: "F16", Shape: []int64{1, 2}}}, "are no blocks"},
		"other blocks": {[]Spec{{Name: "w_blocks", DType: "U8", Shape: []int64{1, 2, 8}}, {Name: "w_scales",
			DType: "U8", Shape: []int64{1, 2}}}, "are no blocks"},
		"one dimension": {[]Spec{{Name: "w_blocks", DType: "U8", Shape: []int64{16}}, {Name: "w_scales",
			DType: "U8"}}, "are no blocks"},
		"twice": {[]Spec{blocks, {Name: "w_scales", DType: "U8", Shape: []int64{1, 2}}, {Name: "w",
			DType: "F32", Shape: []int64{1}}}, "is there beside"},
	} {
		slices.SortFunc(c.specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
		size := int64(0)
		for _, s := range c.specs {
			n, err := s.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			size += n
		}
		err := parsed(t, c.specs, make([]byte, size)).JoinMXFP4()
		if !errors.Is(err, tensors.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
