package safetensors

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

	"tgi/models/tensors"
	"tgi/models/tensors/tensorstest"
)

// image puts a header and a body together as a file.
func image(header, body string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), body...)
}

const eight = "\x01\x02\x03\x04\x05\x06\x07\x08"

func TestParseRefusesDamagedFiles(t *testing.T) {
	huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
	cases := []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "file has 0 bytes, the header length alone takes 8"},
		{"short", []byte("1234567"), "file has 7 bytes, the header length alone takes 8"},
		{"huge header", append(huge, "{}"...), "header length is 1099511627776, at most 104857600 is allowed"},
		{"cut header", image(`{"a":{}}`, "")[:12],
			"header length is 8, but only 4 bytes follow: the file is truncated"},
		{"no json", image("hello", ""), "header: is not a JSON object"},
		{"list", image("[]", ""), "header: is not a JSON object"},
		{"open json", image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`, eight), "header: ends early"},
		{"tail", image(`{} {}`, ""), "header: has data after the JSON object"},
		{"not a tensor", image(`{"a":7}`, ""), `header: tensor "a": json`},
		{"no dtype", image(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, eight), `header: tensor "a": has no dtype`},
		{"no shape", image(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, eight), `header: tensor "a": has no shape`},
		{"one offset", image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}}`, eight),
			`tensor "a": data_offsets has 1 numbers, want 2`},
		{"unknown dtype", image(`{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}`, eight),
			`tensor "a": dtype "F31" is unknown`},
		{"negative dimension", image(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, eight),
			`tensor "a": shape [-2] has a negative dimension`},
		{"overflow", image(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, eight),
			`tensor "a": shape [4294967296 4294967296] overflows`},
		{"rank", image(`{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}`, eight),
			`tensor "a": shape has 17 dimensions, at most 16 are allowed`},
		{"fraction", image(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}}`, eight),
			`header: tensor "a": json`},
		{"half bytes", image(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, eight),
			`tensor "a": F4 of shape [3] does not fill whole bytes`},
		{"backwards", image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, eight),
			`tensor "a": data_offsets are [8, 0], want 0 <= begin <= end`},
		{"negative offset", image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}`, eight),
			`tensor "a": data_offsets are [-8, 0], want 0 <= begin <= end`},
		{"size mismatch", image(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, eight),
			`tensor "a": F32 of shape [3] takes 12 bytes, data_offsets span 8`},
		{"out of range", image(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`, eight),
			`tensor "a" ends at byte 12 of the data, but the file has 8: it is truncated`},
		{"overlap",
			image(`{"a":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}`, eight),
			`tensor "b" begins at byte 4 of the data, inside tensor "a", which ends at 6`},
		{"hole", image(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}`, eight),
			`bytes 0 to 4 of the data, before tensor "a", belong to no tensor`},
		{"rest", image(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, eight),
			"4 bytes follow the last tensor, want none"},
		{"twice",
			image(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"a":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}`, eight), `header: tensor "a" appears twice`},
		{"metadata", image(`{"__metadata__":{"a":1}}`, ""), "header: __metadata__ is not an object of strings"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse("bad.safetensors", c.data)
			if !errors.Is(err, tensors.ErrFormat) {
				t.Fatalf("error %v does not wrap ErrFormat", err)
			}
			if !strings.HasPrefix(err.Error(), "bad.safetensors: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n got %s\nwant %s", err, c.want)
			}
		})
	}
}

func TestParseAcceptsWhatTheFormatAllows(t *testing.T) {
	s, err := parse("ok",
		image(`{"__metadata__":{"format":"pt"},"scalar":{"dtype":"F32","shape":[],"data_offsets":[4,8]},`+
			`"none":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},"pair":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}   `, "\x80\x3f\x00\xc0\x00\x00\x20\x41"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Names(), []string{"none", "pair", "scalar"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for name, want := range map[string][]float32{"none": {}, "pair": {1, -2}, "scalar": {10}} {
		tensor, err := s.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, tensor.Len())
		if err := tensor.Floats(got, 0); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v (%v), want %v", name, got, err, want)
		}
	}
	if _, err := s.Tensor("other"); !errors.Is(err, tensors.ErrMissing) {
		t.Errorf("error %v does not wrap ErrMissing", err)
	}
}

func TestFloatsRefusesTypesAndRanges(t *testing.T) {
	s, err := parse("ok",
		image(`{"i":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}`, eight))
	if err != nil {
		t.Fatal(err)
	}
	ints, _ := s.Tensor("i")
	if err := ints.Floats(make([]float32, 1), 0); err == nil ||
		!strings.Contains(err.Error(), `tensor "i" has dtype I8`) {
		t.Errorf("I8 gave %v", err)
	}
	halves, _ := s.Tensor("h")
	for _, c := range []struct{ n, at int }{{3, 0}, {1, 2}, {2, 1}, {0, 3}, {1, -1}, {math.MaxInt32, 1}} {
		if err := halves.Floats(make([]float32, min(c.n, 8)), c.at); err == nil {
			t.Errorf("%d elements from %d were read", c.n, c.at)
		}
	}
}

// shard returns a file with one F32 tensor of one element.
func shard(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	var specs []Spec
	for _, n := range names {
		specs = append(specs, Spec{Name: n, DType: tensors.F32, Shape: []int64{1}})
	}
	if err := WriteHeader(&b, specs); err != nil {
		t.Fatal(err)
	}
	b.Write(make([]byte, 4*len(names)))
	return b.Bytes()
}

func TestOpenFolders(t *testing.T) {
	a, b, ab := shard(t, "a"), shard(t, "b"), shard(t, "a", "b")
	cases := []struct {
		name  string
		files map[string][]byte
		names string // tensors, joined
		want  string // error
	}{
		{"single", map[string][]byte{SingleFile: ab}, "a b", ""},
		{"shards", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`),
			"1.safetensors": a, "2.safetensors": b}, "a b", ""},
		{"index wins", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors"}}`), "1.safetensors": a,
			SingleFile: ab}, "a", ""},
		{"nothing", nil, "", "neither model.safetensors nor model.safetensors.index.json exists"},
		{"shard missing",
			map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`),
				"1.safetensors": a}, "", `shard "2.safetensors": not in the checkpoint`},
		{"shard cut", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors"}}`),
			"1.safetensors": a[:len(a)-1]}, "",
			`1.safetensors: malformed weights: tensor "a" ends at byte 4 of the data, but the file has 3`},
		{"tensor in the wrong shard",
			map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}`),
				"1.safetensors": a, "2.safetensors": b}, "", `tensor "a" is not in shard 2.safetensors`},
		{"tensor not in the index", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors"}}`),
			"1.safetensors": ab}, "", `tensor "b" of 1.safetensors is not in weight_map`},
		{"tensor in two shards",
			map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`),
				"1.safetensors": a, "2.safetensors": ab}, "",
			`2.safetensors: malformed weights: tensor "a" is also in 1.safetensors`},
		{"escape", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"../1.safetensors"}}`)}, "",
			`shard "../1.safetensors" is not a plain file name`},
		{"index without map", map[string][]byte{IndexFile: []byte(`{}`)}, "", "has no weight_map"},
		{"index with list", map[string][]byte{IndexFile: []byte(`{"weight_map":[]}`)}, "",
			"weight_map is not an object"},
		{"index with number", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":1}}`)}, "",
			`tensor "a": shard is not a string`},
		{"index twice", map[string][]byte{IndexFile: []byte(`{"weight_map":{"a":"x","a":"y"}}`)}, "",
			`tensor "a" appears twice`},
		{"index empty", map[string][]byte{IndexFile: []byte(`{"weight_map":{}}`)}, "", "weight_map is empty"},
		{"index cut", map[string][]byte{IndexFile: []byte(`{"weight_map":`)}, "",
			"model.safetensors.index.json: malformed weights: unexpected end"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir, fsys := t.TempDir(), fstest.MapFS{}
			for name, data := range c.files {
				fsys[name] = &fstest.MapFile{Data: data}
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			fromDir, dirErr := OpenDir(dir)
			fromFS, fsErr := OpenFS(fsys)
			for _, got := range []struct {
				set *tensors.Set
				err error
			}{{fromDir, dirErr}, {fromFS, fsErr}} {
				if c.want != "" {
					if got.err == nil || !strings.Contains(got.err.Error(), c.want) {
						t.Errorf("error\n got %v\nwant %s", got.err, c.want)
					}
					continue
				}
				if got.err != nil {
					t.Fatal(got.err)
				}
				if names := strings.Join(got.set.Names(), " "); names != c.names {
					t.Errorf("tensors %s, want %s", names, c.names)
				}
				if err := got.set.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOpenRefusesFolders(t *testing.T) {
	if _, err := openFile(t.TempDir()); err == nil {
		t.Error("a folder was opened as a file")
	}
}

func TestWriteHeaderRefuses(t *testing.T) {
	for _, specs := range [][]Spec{
		{{"a", tensors.F32, []int64{1}}, {"a", tensors.F32, []int64{1}}},
		{{"a", "F31", []int64{1}}},
		{{"a", tensors.F32, []int64{-1}}},
	} {
		if err := WriteHeader(&bytes.Buffer{}, specs); err == nil || !strings.Contains(err.Error(), `tensor "a"`) {
			t.Errorf("%v gave %v", specs, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, eight))
	f.Add(image(`{"__metadata__":{"k":"v"},"a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}`, eight))
	f.Add(image(`{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[],"data_offsets":[6,7]}}`, eight[:7]))
	f.Add(image(`{"a_blocks":{"dtype":"U8","shape":[2,1,2,16],"data_offsets":[0,64]},"a_scales":{"dtype":"U8",`+
		`"shape":[2,1,2],"data_offsets":[64,68]}}`, strings.Repeat("\x7e\xf1", 34)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parse("f", data)
		if err != nil {
			if !errors.Is(err, tensors.ErrFormat) {
				t.Errorf("error %v does not wrap ErrFormat", err)
			}
			return
		}
		total := 0
		for _, name := range s.Names() {
			tensor, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			total += len(tensor.Bytes())
			if tensor.Len() < 1<<16 {
				tensor.Floats(make([]float32, tensor.Len()), 0)
			}
		}
		if total > len(data) {
			t.Errorf("tensors hold %d bytes of a file of %d", total, len(data))
		}
		if err := s.JoinMXFP4(); err != nil {
			if !errors.Is(err, tensors.ErrFormat) {
				t.Errorf("error %v does not wrap ErrFormat", err)
			}
			return
		}
		for _, name := range s.Names() {
			w, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if w.Form().Bits == 0 || w.Len() > 1<<16 {
				continue
			}
			if err := w.Floats(make([]float32, w.Len()), 0); err != nil {
				t.Fatal(err)
			}
			for len(w.Shape) > 2 && w.Len() > 0 {
				w = w.Part(int(w.Shape[0]) - 1)
			}
			tensorstest.ReadIntegers(w)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		weightMap, err := parseIndex(IndexFile, data)
		for tensor, shard := range weightMap {
			if err == nil && filepath.Base(shard) != shard {
				t.Errorf("tensor %q: shard %q leaves the folder", tensor, shard)
			}
		}
	})
}

// parse reads a file in memory; name is used in errors.
func parse(name string, data []byte) (*tensors.Set, error) {
	f, err := parseFile(name, data)
	if err != nil {
		return nil, err
	}
	s := new(tensors.Set)
	return s, s.Add(name, f.tensors, f.mapping)
}
