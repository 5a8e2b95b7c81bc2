package hf

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/models/tensors/tensorstest"
)

// packedLayer returns a file that holds one layer of a checkpoint in testdata/packed.
func packedLayer(f *testing.F, name string) []byte {
	f.Helper()
	set, err := safetensors.OpenDir(filepath.Join("../testdata/packed", name))
	if err != nil {
		f.Fatal(err)
	}
	defer set.Close()
	var specs []safetensors.Spec
	var data, out bytes.Buffer
	for _, name := range set.Names() {
		end, ok := strings.CutPrefix(name, "model.layers.0.self_attn.k_proj.")
		if !ok {
			if end, ok = strings.CutPrefix(name, "model.layers.0.self_attn.kv_b_proj."); !ok { // latent attention
				continue
			}
		}
		t, err := set.Tensor(name)
		if err != nil {
			f.Fatal(err)
		}
		specs = append(specs, safetensors.Spec{Name: "l." + end, DType: t.DType, Shape: t.Shape})
		data.Write(t.Bytes())
	}
	if err := safetensors.WriteHeader(&out, specs); err != nil || len(specs) == 0 {
		f.Fatalf("%s: %d tensors of a layer, %v", name, len(specs), err)
	}
	return append(out.Bytes(), data.Bytes()...)
}

// FuzzPacked: whatever tensors a quantised layer has, it is a matrix that can be read whole, as numbers and as
// integers, or an error that says what is wrong with it.
func FuzzPacked(f *testing.F) {
	methods := []Packing{{Method: "gptq", Bits: 4}, {Method: "gptq", Bits: 8, ZerosAreLess: true},
		{Method: "awq", Bits: 4}, {Method: "fp8"}, {Method: "bitsandbytes"}, {Method: "compressed-tensors"}}
	for name, method := range map[string]uint8{"gptq": 0, "gptq-order": 0, "gptq-symmetric": 1, "awq": 2, "fp8": 3,
		"fp8-latent": 3, "nf4": 4, "fp4": 4, "compressed-4": 5, "compressed-4-zeros": 5, "compressed-8": 5,
		"compressed-int": 5, "compressed-float": 5} {
		layer := packedLayer(f, name)
		f.Add(method, layer)
		f.Add(method+1, layer)
		f.Add(method, bytes.Replace(layer, []byte(`"shape":[`), []byte(`"shape":[1,`), 1))
	}
	f.Fuzz(func(t *testing.T, method uint8, data []byte) {
		set, err := safetensors.OpenFS(fstest.MapFS{safetensors.SingleFile: {Data: data}})
		if err != nil {
			return
		}
		defer set.Close()
		if err := methods[int(method)%len(methods)].unpack(set); err != nil {
			if !errors.Is(err, tensors.ErrFormat) && !errors.Is(err, tensors.ErrMissing) {
				t.Errorf("error %v wraps neither ErrFormat nor ErrMissing", err)
			}
			return
		}
		for _, name := range set.Names() {
			w, err := set.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if w.InOrder() || w.Len() > 1<<16 { // what was not packed
				continue
			}
			if err := w.Floats(make([]float32, w.Len()), 0); err != nil {
				t.Fatal(err)
			}
			tensorstest.ReadIntegers(w)
		}
	})
}
