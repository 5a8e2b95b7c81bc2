package decoder

import (
	"bytes"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/quant"
	"tgi/models/safetensors"
)

// dequantise writes the weights of the codes to dst, rows of k.
func dequantise(f quant.Format, dst []float32, codes []byte, scales []float32, k int) {
	zero := 1 << (f.Bits - 1)
	for i := range dst {
		row, col := i/k, i%k
		c := int(codes[row*f.RowBytes(k)+col*f.Bits/8])
		if f.Bits == 4 {
			c = c >> (4 * (col % 2)) & 15
		}
		dst[i] = float32(c-zero) * scales[row*f.Blocks(k)+col/f.Block]
	}
}

// rewrite returns a copy of a checkpoint whose tensors went through change,
// stored as 32-bit floats.
func rewrite(t testing.TB, ck *hf.Checkpoint, change func(name string, shape []int64, x []float32)) *hf.Checkpoint {
	t.Helper()
	var specs []safetensors.Spec
	var body bytes.Buffer
	for _, name := range ck.Tensors.Names() {
		tensor, err := ck.Tensors.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, tensor.Len())
		if err := tensor.Floats(x, 0); err != nil {
			t.Fatal(err)
		}
		change(name, tensor.Shape, x)
		specs = append(specs, safetensors.Spec{Name: name, DType: safetensors.F32, Shape: tensor.Shape})
		body.Write(appendFloats(nil, x))
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	file.Write(body.Bytes())
	set, err := parseTensors(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	out := *ck
	out.Tensors = set
	return &out
}

// rounded replaces every matrix by what its quantised form stands for.
func rounded(t testing.TB, ck *hf.Checkpoint, bits int) *hf.Checkpoint {
	t.Helper()
	return rewrite(t, ck, func(name string, shape []int64, x []float32) {
		if len(shape) != 2 {
			return
		}
		f := quant.Format{Bits: bits, Block: quantBlock}
		if name == nameEmbed && !ck.Config.Tied {
			f.Bits = 8
		}
		k := int(shape[1])
		rows := len(x) / k
		codes, scales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
		f.Rows(codes, scales, x, k)
		dequantise(f, x, codes, scales, k)
	})
}

// TestQuantisedGraphsComputeWhatTheirCodesSay runs the quantised graph in
// 32-bit arithmetic and compares it with a float graph of the same weights.
func TestQuantisedGraphsComputeWhatTheirCodesSay(t *testing.T) {
	for _, name := range goldenNames(t) {
		ck, g := readGolden(t, name)
		for w, bits := range map[models.Weights]int{models.Int4: 4, models.Int8: 8} {
			t.Run(name+" "+string(w), func(t *testing.T) {
				r, path := buildTo(t, ck, Options{Weights: w, exact: true})
				got := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				r, path = buildTo(t, rounded(t, ck, bits), Options{Weights: models.FP32})
				want := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				if d := distance(got, want); d > tolerance {
					t.Errorf("logits differ by %g", d)
				}
			})
		}
	}
}

// TestRoundingOfActivations holds that the served form, which rounds
// activations to 8 bits, stays near the exact one. The goldens' sharp
// attention would amplify the rounding, so it is taken out first.
func TestRoundingOfActivations(t *testing.T) {
	for _, name := range []string{"llama3", "smollm2", "qwen2-yarn"} {
		ck, g := readGolden(t, name)
		calm := rewrite(t, ck, func(name string, _ []int64, x []float32) {
			if strings.Contains(name, "q_proj") {
				for i := range x {
					x[i] /= 8
				}
			}
		})
		for _, w := range []models.Weights{models.Int4, models.Int8} {
			t.Run(name+" "+string(w), func(t *testing.T) {
				var logits [2][][]float32
				for i, exact := range []bool{true, false} {
					r, path := buildTo(t, calm, Options{Weights: w, exact: exact})
					logits[i] = runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				}
				var a quant.Agreement
				for i := range logits[0] {
					if err := a.Add(logits[0][i], logits[1][i]); err != nil {
						t.Fatal(err)
					}
				}
				t.Logf("largest difference %.3f, %v", distance(logits[1], logits[0]), &a)
				if a.KL() > 0.02 {
					t.Errorf("rounding changes the distributions: %v", &a)
				}
			})
		}
	}
}
