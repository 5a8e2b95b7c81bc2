package decoder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/quant"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/runtime/llm"
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
		specs = append(specs, safetensors.Spec{Name: name, DType: tensors.F32, Shape: tensor.Shape})
		floats, err := tensors.F32.AppendFloats(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		body.Write(floats)
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

// notQuantised reports whether a tensor is no matrix that is quantised.
func notQuantised(c *hf.Config, name string, shape []int64) bool {
	names := c.Tensors
	return len(shape) < 2 || names.Positions != "" && name == weightOf(names.Whole(names.Positions)) ||
		strings.HasSuffix(name, "_norm.weight") || isRouter(c, name) ||
		names.SharedRouter != "" && strings.HasSuffix(name, names.SharedRouter+".weight") ||
		strings.HasSuffix(name, "_bias")
}

// isExpert reports whether a tensor is one of the experts' matrices or biases.
func isExpert(c *hf.Config, name string) bool {
	for i := range c.Layers {
		if c.Experts.N == 0 || !c.HasExperts(i) {
			continue
		}
		for _, p := range slices.Concat(c.ExpertGateUp(i), c.ExpertDown(i)) {
			if name == nameOf(p, weightOf) || name == nameOf(p, biasOf) {
				return true
			}
		}
	}
	return false
}

// isRouter reports whether a tensor is the matrix that chooses experts.
func isRouter(c *hf.Config, name string) bool {
	return c.Tensors.Router != "" && strings.HasSuffix(name, c.Tensors.Router+".weight")
}

// ofLatent reports whether a tensor is the matrix that makes keys and values in latent attention.
func ofLatent(c *hf.Config, name string) bool {
	return c.Latent.Rank != 0 && strings.HasSuffix(name, c.Tensors.KVUp+".weight")
}

// rounded replaces every matrix by what its quantised form stands for.
func rounded(t testing.TB, ck *hf.Checkpoint, format quant.Format) *hf.Checkpoint {
	t.Helper()
	names := ck.Config.Tensors
	return rewrite(t, ck, func(name string, shape []int64, x []float32) {
		if notQuantised(&ck.Config, name, shape) {
			return
		}
		f, embed := format, name == weightOf(names.Whole(names.Embed))
		if embed && !ck.Config.Tied {
			f.Bits = 8
		}
		if l := ck.Config.Latent; ofLatent(&ck.Config, name) {
			// Of each head keys are in the other direction: their matrix is multiplied by queries.
			for own := range slices.Chunk(x, (l.Nope+l.Value)*l.Rank) {
				keys, values := own[:l.Nope*l.Rank], own[l.Nope*l.Rank:]
				copy(keys, transpose(roundedMatrix(f, transpose(keys, l.Nope, l.Rank), l.Rank, l.Nope), l.Rank, l.Nope))
				copy(values, roundedMatrix(f, values, l.Value, l.Rank))
			}
			return
		}
		turned := names.Transposed && !embed
		if len(shape) == 3 {
			turned = names.ExpertsBare && !ck.Config.Experts.Packed
		}
		rows, k := int(shape[len(shape)-2]), int(shape[len(shape)-1])
		for own := range slices.Chunk(x, rows*k) { // of experts
			if turned {
				copy(own, transpose(roundedMatrix(f, transpose(own, rows, k), k, rows), k, rows))
			} else {
				copy(own, roundedMatrix(f, own, rows, k))
			}
		}
	})
}

// roundedMatrix is what the quantised form of a matrix stands for.
func roundedMatrix(f quant.Format, x []float32, rows, k int) []float32 {
	codes, scales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
	f.Rows(codes, scales, x, k)
	out := make([]float32, len(x))
	dequantise(f, out, codes, scales, k)
	return out
}

func transpose(x []float32, rows, k int) []float32 {
	out := make([]float32, len(x))
	for i := range rows {
		for j := range k {
			out[j*rows+i] = x[i*k+j]
		}
	}
	return out
}

// unpack reads a packed matrix of n rows of k weights as codes and scales of Format.Rows.
func unpack(f quant.Format, packed []byte, n, k int) (codes []byte, scales []float32) {
	blocks, size := f.Blocks(k), 16*(2+f.Block*f.Bits/8)
	codes = make([]byte, n*f.RowBytes(k))
	for row := range n {
		for b := range blocks {
			block := packed[(row/16*blocks+b)*size:]
			scales = append(scales, value(tensors.F16, binary.LittleEndian.Uint16(block[row%16*2:])))
			for col := range f.Block {
				at, to := 32+row%16*4+col%4, (row*blocks+b)*f.Block+col
				if f.Bits == 8 {
					codes[to] = block[at+col/4*64] + 128
				} else {
					codes[to/2] |= block[at+col/8*64] >> (col % 8 / 4 * 4) & 15 << (to % 2 * 4)
				}
			}
		}
	}
	return codes, scales
}

// TestPackedMatrices compares every quantised matrix of the graphs for CPUs with the checkpoint's, quantised as a
// whole.
func TestPackedMatrices(t *testing.T) {
	for _, name := range llamaNames(t) {
		ck, _ := readGolden(t, name)
		for w, bits := range map[models.Weights]int{models.Int4: 4, models.Int8: 8} {
			f := built(t, ck, Options{Weights: w})
			seen := 0
			for _, n := range f.nodes {
				matrix := map[string]int{"MatMulQ": 1, "GatherQ": 0}
				at, ok := matrix[n.op]
				if !ok {
					continue
				}
				seen++
				initial := n.in[at]
				stackedParts := stacked(ck.Config)[strings.TrimSuffix(initial, ".weight")]
				if p, ok := strings.CutSuffix(initial, "gate_up.weight"); ok {
					stackedParts = append(slices.Clone(stacked(ck.Config)[p+"gate"]), stacked(ck.Config)[p+"up"]...)
				}
				var x []float32
				for _, tensor := range stackedParts {
					x = append(x, wide(t, ck, tensor)...)
				}
				format := quant.Format{Form: tensors.Form{Bits: bits}, Block: 32, RoundScale: tensors.RoundHalf}
				if n.op == "GatherQ" && !ck.Config.Tied {
					format.Bits = 8
				}
				rows, k := n.ints["N"], n.ints["K"]
				packed := f.inits[initial].data
				if rows*k != len(x) || n.ints["bits"] != format.Bits || n.ints["block_size"] != 32 ||
					int64(len(packed)) != format.PackedBytes(rows, k) {
					t.Fatalf("%s %s: %s of %d bytes has %v for %d weights", name, w, n.name, len(packed), n.ints,
						len(x))
				}
				codes, scales := unpack(format, packed, rows, k)
				wantCodes, wantScales := make([]byte, len(codes)), make([]float32, len(scales))
				format.Rows(wantCodes, wantScales, x, k)
				if !bytes.Equal(codes, wantCodes) || !slices.Equal(scales, wantScales) {
					t.Errorf("%s %s: %s has other weights than the checkpoint", name, w, n.name)
				}
			}
			if want := 4*ck.Config.Layers + 2; seen != want {
				t.Errorf("%s %s: %d quantised matrices, want %d", name, w, seen, want)
			}
		}
	}
}

// calm returns a golden checkpoint without its sharp attention, which would amplify the rounding of activations.
func calm(t testing.TB, ck *hf.Checkpoint) *hf.Checkpoint {
	return rewrite(t, ck, func(name string, _ []int64, x []float32) {
		if strings.Contains(name, "q_proj") || strings.Contains(name, "q_b_proj") {
			for i := range x {
				x[i] /= 8
			}
		}
	})
}

// TestRoundingOfActivations holds that quantised graphs, which round activations to 8 bits, stay near float graphs of
// the weights that their codes stand for.
func TestRoundingOfActivations(t *testing.T) {
	for _, name := range goldenNames(t) {
		ck, g := readGolden(t, name)
		ck = calm(t, ck)
		for w, bits := range map[models.Weights]int{models.Int4: 4, models.Int8: 8} {
			t.Run(name+" "+string(w), func(t *testing.T) {
				same := rounded(t, ck, quant.Format{Form: tensors.Form{Bits: bits}, Block: models.QuantBlock,
					RoundScale: tensors.RoundHalf})
				r, path := buildTo(t, same, Options{Weights: models.FP32})
				want := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				r, path = buildTo(t, ck, Options{Weights: w})
				got := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				var a quant.Agreement
				var worst float64
				for i := range want {
					var one quant.Agreement
					if err := errors.Join(a.Add(want[i], got[i]), one.Add(want[i], got[i])); err != nil {
						t.Fatal(err)
					}
					worst = max(worst, one.KL())
				}
				t.Logf("largest difference %.3f, %v", distance(got, want), &a)
				limit, kl := 0.02, a.KL()
				if ck.Config.Experts.N > 0 {
					limit = 0.05 // rounding may choose another expert
				}
				if name == "glm4-moe-lite" && w == models.Int8 {
					// One position takes another expert, and all others are as near as those of dense models.
					limit, kl = 0.02, (kl*float64(a.Positions)-worst)/float64(a.Positions-1)
					takesOtherExpert(t, ck, same, w, g.Prompts[2], want, got)
				}
				if kl > limit {
					t.Errorf("rounding changes the distributions: %v", &a)
				}
			})
		}
	}
}

// takesOtherExpert holds that the position that is farthest off is there because another expert was chosen: with
// activations rounded as on the CPU the interpreter computes what the CPU does, takes another expert there, and is near
// again when it must take the ones that it takes without rounding.
func takesOtherExpert(t *testing.T, ck, same *hf.Checkpoint, w models.Weights, prompt []llm.Token,
	want, got [][]float32) {
	t.Helper()
	f := built(t, withLatent(t, ck, same), Options{Device: models.CUDA, Weights: w, anySizes: true})
	run := func(coded bool, pinned map[pick][]int) (*interpreter, [][]float32) {
		m := interpret(t, f, rotaryOf(t, same))
		m.coded, m.tail, m.pinned = coded, ck.Config.Latent.Rope, pinned
		return m, m.logits(prompt)
	}
	apart := func(a, b []float32) float64 {
		var one quant.Agreement
		if err := one.Add(a, b); err != nil {
			t.Fatal(err)
		}
		return one.KL()
	}
	exact, _ := run(false, nil)
	own, rounded := run(true, nil)
	_, pinned := run(true, exact.picked)
	far := 0
	for i := range want {
		if apart(want[i], got[i]) > apart(want[far], got[far]) {
			far = i
		}
		if d := apart(got[i], rounded[i]); d > 0.02 {
			t.Errorf("position %d: the interpreter is %.3f from the CPU", i, d)
		}
		if d := apart(want[i], pinned[i]); d > 0.02 {
			t.Errorf("position %d: with the experts of floats the distribution is %.3f off", i, d)
		}
	}
	other := ""
	for at, experts := range exact.picked {
		a, b := slices.Sorted(slices.Values(experts)), slices.Sorted(slices.Values(own.picked[at]))
		if at.row == far && strings.HasSuffix(at.node, ".router.chosen") && !slices.Equal(a, b) {
			other += fmt.Sprintf(" %s: %v, not %v", at.node, b, a)
		}
	}
	if t.Logf("position %d takes%s", far, other); other == "" {
		t.Errorf("position %d is %.3f off and takes the experts of floats", far, apart(want[far], got[far]))
	}
}

// TestWeightsThatNoIntegerHolds: a checkpoint with them is refused by the tensor's name, not turned into something
// else.
func TestWeightsThatNoIntegerHolds(t *testing.T) {
	ck, _ := readGolden(t, "llama3")
	const tensor = "model.layers.1.mlp.up_proj.weight"
	for v, want := range map[float32]string{
		float32(math.NaN()):   "weight 77 is NaN, which no block",
		float32(math.Inf(-1)): "weight 77 is -Inf, which no block",
		1e6:                   "has weights that no block of integers can hold: their scale would be -Inf",
	} {
		bad := rewrite(t, ck, func(name string, _ []int64, x []float32) {
			if name == tensor {
				x[77] = v
			}
		})
		for _, d := range []models.Device{models.CPU, models.CUDA} {
			_, err := Build(bad, io.Discard, Options{Device: d, Weights: models.Int4})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tensor) {
				t.Errorf("%g on %s: %v, want %s", v, d, err, want)
			}
		}
	}
}
