package decoder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// wide returns the elements of a tensor of the checkpoint.
func wide(t testing.TB, ck *hf.Checkpoint, name string) []float32 {
	t.Helper()
	tensor, err := ck.Tensors.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, tensor.Len())
	if err := tensor.Floats(x, 0); err != nil {
		t.Fatal(err)
	}
	return x
}

// stacked maps each matrix of the graph (layer0.qkv), and each vector (layer0.qkv.bias), to the tensors that it holds.
func stacked(c hf.Config) map[string][]string {
	out := map[string][]string{"embed": {"model.embed_tokens.weight"}, "norm.weight": {"model.norm.weight"}}
	if !c.Tied {
		out["head"] = []string{"lm_head.weight"}
	}
	for i := range c.Layers {
		p, w := fmt.Sprintf("layer%d.", i), fmt.Sprintf("model.layers.%d.", i)
		out[p+"attn_norm.weight"] = []string{w + "input_layernorm.weight"}
		out[p+"mlp_norm.weight"] = []string{w + "post_attention_layernorm.weight"}
		if c.QKNorm.Over != hf.QKNormNone {
			out[p+"q_norm.weight"] = []string{w + "self_attn.q_norm.weight"}
			out[p+"k_norm.weight"] = []string{w + "self_attn.k_norm.weight"}
		}
		linear := func(name string, bias bool, tensors ...string) {
			for _, tensor := range tensors {
				out[p+name] = append(out[p+name], w+tensor+".weight")
				if bias {
					out[p+name+".bias"] = append(out[p+name+".bias"], w+tensor+".bias")
				}
			}
		}
		linear("qkv", c.QKVBias, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		linear("out", c.OutBias, "self_attn.o_proj")
		linear("gate", c.MLPBias, "mlp.gate_proj")
		linear("up", c.MLPBias, "mlp.up_proj")
		linear("down", c.MLPBias, "mlp.down_proj")
	}
	return out
}

// near fails unless every 16-bit number is the one nearest to x; ties go to either side.
func near(t *testing.T, what string, d tensors.DType, got []byte, x []float32) {
	t.Helper()
	if len(got) != 2*len(x) {
		t.Fatalf("%s has %d bytes for %d numbers", what, len(got), len(x))
	}
	for i, v := range x {
		h := binary.LittleEndian.Uint16(got[2*i:])
		here := math.Abs(float64(value(d, h)) - float64(v))
		for _, other := range []uint16{h - 1, h + 1} {
			if away := math.Abs(float64(value(d, other)) - float64(v)); away < here {
				t.Fatalf("%s: element %d is %g, but %g is nearer to %g", what, i, value(d, h), value(d, other), v)
			}
		}
	}
}

// value is what 16 bits stand for.
func value(d tensors.DType, h uint16) float32 {
	if d == tensors.BF16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	sign, exp, frac := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return float32(sign * math.Ldexp(frac, -24))
	case 31:
		return float32(math.Inf(int(sign)))
	}
	return float32(sign * math.Ldexp(1024+frac, exp-25))
}

// TestCUDAWeightsAreThoseOfTheCheckpoint reads every weight back: bit by bit where the types are the same, and else the
// nearest number.
func TestCUDAWeightsAreThoseOfTheCheckpoint(t *testing.T) {
	kept := 0
	for _, name := range llamaNames(t) {
		ck, _ := readGolden(t, name)
		for w, d := range map[models.Weights]tensors.DType{models.BF16: tensors.BF16,
			models.FP16: tensors.F16} {
			f := built(t, ck, Options{Device: models.CUDA, Weights: w})
			seen := 0
			for matrix, tensors := range stacked(ck.Config) {
				if !strings.HasSuffix(matrix, ".weight") && !strings.HasSuffix(matrix, ".bias") {
					matrix += ".weight"
				}
				init, ok := f.inits[matrix]
				if !ok || init.typ != elements[models.LayoutOf(models.CUDA, w, 1).DType].graph {
					t.Fatalf("%s %s: %s has type %d", name, w, matrix, init.typ)
				}
				at := 0
				for _, tensor := range tensors {
					x := wide(t, ck, tensor)
					part := init.data[at : at+2*len(x)]
					at += len(part)
					stored, _ := ck.Tensors.Tensor(tensor)
					if stored.DType == d {
						kept++
						if !bytes.Equal(part, stored.Bytes()) {
							t.Errorf("%s %s: %s was changed", name, w, tensor)
						}
					}
					near(t, tensor, d, part, x)
				}
				if at != len(init.data) || init.len()*2 != at {
					t.Errorf("%s %s: %s has %d bytes in dimensions %v, its tensors have %d", name, w, matrix, len(init.data),
						init.dims, at)
				}
				seen++
			}
			if seen+2 != len(f.inits) { // and two rotary tables
				t.Errorf("%s %s: %d of %d initializers were compared", name, w, seen, len(f.inits))
			}
		}
	}
	if kept == 0 {
		t.Error("no checkpoint has the type of its weights")
	}
}

// TestCUDARotaryTables: they are the CPU's, computed in 32 bits, and then rounded.
func TestCUDARotaryTables(t *testing.T) {
	for _, name := range cudaNames(t) {
		ck, _ := readGolden(t, name)
		cpu := built(t, ck, Options{Weights: models.FP32})
		for w, d := range map[models.Weights]tensors.DType{models.BF16: tensors.BF16,
			models.FP16: tensors.F16} {
			f := built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
			for _, table := range []string{"cos_cache", "sin_cache"} {
				if ck.Config.Tensors.Positions != "" { // in place of a rotary embedding
					continue
				}
				dims := slices.Clone(cpu.inits[table].dims)
				if original := ck.Config.OriginalPositions; original != 0 { // where sequences end on CUDA
					dims[0] = original
				}
				x := make([]float32, dims[0]*dims[1])
				for i := range x {
					x[i] = math.Float32frombits(binary.LittleEndian.Uint32(cpu.inits[table].data[4*i:]))
				}
				near(t, name+" "+table, d, f.inits[table].data, x)
				if !slices.Equal(f.inits[table].dims, dims) {
					t.Errorf("%s: %s has dimensions %v", name, table, f.inits[table].dims)
				}
			}
		}
	}
}

// TestCUDACodesAndScales: every quantised weight is within half a step of the checkpoint's, or at the end of the range;
// scales are those of the reference, rounded.
func TestCUDACodesAndScales(t *testing.T) {
	for _, name := range llamaNames(t) {
		ck, _ := readGolden(t, name)
		for w, bits := range map[models.Weights]int{models.Int4: 4, models.Int8: 8} {
			f := built(t, ck, Options{Device: models.CUDA, Weights: w})
			for matrix, names := range stacked(ck.Config) {
				codes, ok := f.inits[matrix+".codes"]
				if !ok {
					continue // a vector
				}
				var x []float32
				for _, tensor := range names {
					x = append(x, wide(t, ck, tensor)...)
				}
				format := quant.Format{Form: tensors.Form{Bits: bits}, Block: 32}
				if matrix == "embed" && !ck.Config.Tied {
					format.Bits = 8
				}
				scales := f.inits[matrix+".scales"]
				if scales.typ != onnx.Float16 {
					t.Fatalf("%s: scales have type %d", matrix, scales.typ)
				}
				rows := scales.dims[0]
				k := len(x) / rows
				if rows*k != len(x) || len(codes.data) != rows*format.RowBytes(k) {
					t.Fatalf("%s %s: %d bytes of codes for %d rows of %d", name, matrix, len(codes.data), rows, k)
				}
				checkCodes(t, name+" "+matrix, format, codes.data, scales.data, x, k)
			}
			if ck.Config.Tied && !bytes.Equal(f.inits["head.codes"].data, f.inits["embed.codes"].data) {
				t.Errorf("%s %s: the tied head has other codes", name, w)
			}
		}
	}
}

func checkCodes(t *testing.T, what string, f quant.Format, codes, scales []byte, x []float32, k int) {
	t.Helper()
	rows := len(x) / k
	exact := make([]float32, rows*f.Blocks(k))
	f.Rows(make([]byte, len(codes)), exact, x, k)
	near(t, what+".scales", tensors.F16, scales, exact)
	stored := make([]float32, len(exact))
	for i := range stored {
		stored[i] = value(tensors.F16, binary.LittleEndian.Uint16(scales[2*i:]))
	}
	back := make([]float32, len(x))
	dequantise(f, back, codes, stored, k)
	zero := float64(int(1) << (f.Bits - 1))
	for i := range x {
		step := math.Abs(float64(stored[i/k*f.Blocks(k)+i%k/f.Block]))
		off := math.Abs(float64(back[i]) - float64(x[i]))
		end := math.Abs(float64(back[i])) >= step*(zero-1)
		if off > step*0.5001 && (!end || off > step*1.0001+1e-3*math.Abs(float64(x[i]))) {
			t.Fatalf("%s: weight %d is %g, was %g, step %g", what, i, back[i], x[i], step)
		}
	}
}

// withPlaces are the classes whose graphs read the places of tokens: they have a table of positions, stretch queries,
// or have weights in norms behind the rotary embedding.
var withPlaces = []string{"BioGptForCausalLM", "GPT2LMHeadModel", "GPTBigCodeForCausalLM", "GPTNeoForCausalLM",
	"HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM", "Ministral3ForCausalLM", "OPTForCausalLM"}

// TestCUDAGraphIsWhatTheBackendBinds holds the names, types and shapes of inputs and outputs.
func TestCUDAGraphIsWhatTheBackendBinds(t *testing.T) {
	for _, name := range cudaNames(t) {
		ck, _ := readGolden(t, name)
		c := ck.Config
		for _, w := range cudaFormats(ck.Config) {
			f := built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
			layout := models.LayoutOf(models.CUDA, w, c.HeadDim)
			cache := readTensor{elements[layout.DType].graph, []int{0, layout.BlockSize, c.KVHeads, c.HeadDim}, nil}
			in := map[string]readTensor{
				"input_ids": {typ: onnx.Int64, dims: []int{0}}, "cu_seqlens": {typ: onnx.Int32, dims: []int{0}},
				"past_lens": {typ: onnx.Int32, dims: []int{0}}, "block_table": {typ: onnx.Int32, dims: []int{0, 0}},
				"slot_mapping": {typ: onnx.Int32, dims: []int{0}}, "logit_rows": {typ: onnx.Int64, dims: []int{0}},
				"attention_metadata": {typ: onnx.Int32, dims: []int{3}},
			}
			out := map[string]readTensor{"logits": {typ: onnx.Float, dims: []int{0, c.Vocab}}}
			if slices.Contains(withPlaces, c.Architecture) {
				in["places"] = readTensor{typ: onnx.Int64, dims: []int{0, 3}}
			}
			domains := []string{"", microsoftDomain}
			if c.Latent.Rank == 0 {
				in["attention_kernels"] = readTensor{typ: onnx.Int64, dims: []int{1}}
				domains = append(domains, tgiDomain)
			}
			for i := range c.Layers {
				for _, kind := range []string{"k_cache", "v_cache"} {
					if kind == "v_cache" && c.Latent.Rank != 0 { // values are in the keys
						continue
					}
					in[fmt.Sprintf("%s.%d", kind, i)], out[fmt.Sprintf("%s_out.%d", kind, i)] = cache, cache
				}
			}
			if fmt.Sprint(f.inputs) != fmt.Sprint(in) || fmt.Sprint(f.outputs) != fmt.Sprint(out) ||
				f.order[0] != "logits" {
				t.Errorf("%s %s: inputs\n got %v\nwant %v\noutputs\n got %v\nwant %v", name, w, f.inputs, in,
					f.outputs, out)
			}
			if !slices.Equal(f.domains, domains) {
				t.Errorf("%s %s: operators of %q", name, w, f.domains)
			}
		}
	}
}

// TestCUDARefusals: what the device cannot hold fails before a session does, and says what helps.
func TestCUDARefusals(t *testing.T) {
	far := func(c *hf.Config) *hf.Checkpoint {
		ck := fixture(t, *c, func(map[string]safetensors.Spec) {})
		return rewrite(t, ck, func(name string, _ []int64, x []float32) {
			if name == "model.norm.weight" {
				x[1] = 1e5
			}
		})
	}
	wideHead, oddHead := tinyConfig(), tinyConfig()
	wideHead.HeadDim, oddHead.HeadDim = 272, 24
	fits := tinyConfig()
	fits.HeadDim = 16
	cases := []struct {
		ck   *hf.Checkpoint
		w    models.Weights
		want string
	}{
		{far(&wideHead), models.BF16, "config.json: head_dim is 272: on cuda it must be a multiple of 16 up to 256"},
		{far(&oddHead), models.BF16, "config.json: head_dim is 24: on cuda it must be a multiple of 16 up to 256"},
		{far(&fits), models.FP32, `weights must be bf16, fp16, int8 or int4 on cuda, given "fp32"`},
		{far(&fits), models.FP16, `tensor "model.norm.weight": 100000 is beyond 65504, the largest number of type F16: ` +
			`weights bf16 keep the range of 32-bit floats`},
		{far(&fits), models.Int4, `tensor "model.norm.weight": 100000 is beyond 65504`},
		{far(&fits), models.BF16, ""},
	}
	for _, c := range cases {
		_, err := Build(c.ck, io.Discard, Options{Device: models.CUDA, Weights: c.w})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %s", c.w, err, c.want)
		}
	}
}

// TestKeysOfTheCPUStay: a change would convert every cached model again.
func TestKeysOfTheCPUStay(t *testing.T) {
	if k := Key(models.CPU, models.Int4, 0); k != "builder 12\nweights int4\n" {
		t.Errorf("key %q", k)
	}
	if k := Key(models.CUDA, models.Int4, 0); k != "device cuda\nbuilder 5\nweights int4\n" {
		t.Errorf("key %q", k)
	}
}

// computedIn is the type of activations beside weights of a format.
func computedIn(w models.Weights) tensors.DType {
	return elements[models.LayoutOf(models.CUDA, w, 1).DType].stored
}

// nearest rounds to 16 bits.
func nearest(t testing.TB, d tensors.DType, x float32) float32 {
	b, err := d.AppendFloats(nil, []float32{x})
	if err != nil {
		t.Fatal(err)
	}
	return value(d, binary.LittleEndian.Uint16(b))
}

// rotaryOf returns the files of the CPU, whose rotary tables have 32 bits.
func rotaryOf(t *testing.T, ck *hf.Checkpoint) *file {
	return built(t, ck, Options{Weights: models.FP32})
}

// narrowest is the format that holds a checkpoint's weights as they are; ok is false where there is none.
func narrowest(t *testing.T, ck *hf.Checkpoint) (w models.Weights, ok bool) {
	t.Helper()
	tensor, err := ck.Tensors.Tensor(weightOf(ck.Config.Tensors.Whole(ck.Config.Tensors.Embed)))
	if err != nil {
		t.Fatal(err)
	}
	switch tensor.DType {
	case tensors.BF16:
		return models.BF16, true
	case tensors.F16:
		return models.FP16, true
	}
	return "", false
}

// TestCUDAGraphComputesTheLogitsOfTransformers interprets the graph in 32 bits, with the rotary tables before they were
// rounded: what remains is what the graph says, which must be what Python's transformers computed.
func TestCUDAGraphComputesTheLogitsOfTransformers(t *testing.T) {
	seen := 0
	for _, name := range cudaNames(t) {
		ck, g := readGolden(t, name)
		w, ok := narrowest(t, ck)
		if !ok {
			continue
		}
		seen++
		m := interpret(t, built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true}), rotaryOf(t, ck))
		if d := distance(m.logits(g.Prompts...), slices.Concat(g.logits...)); d > tolerance {
			t.Errorf("%s: logits differ by %g", name, d)
		}
	}
	if seen < 10 {
		t.Errorf("only %d checkpoints were compared", seen)
	}
}

// TestCUDAGraphIsTheCPUsGraph holds the interpreted graph, in every format, against what ONNX Runtime computes on the
// CPU from the same weights as 32-bit floats.
func TestCUDAGraphIsTheCPUsGraph(t *testing.T) {
	for _, name := range cudaNames(t) {
		ck, g := readGolden(t, name)
		for _, w := range cudaFormats(ck.Config) {
			d := computedIn(w)
			same := ck
			if w.Quantised() {
				format := quant.Format{Form: tensors.Form{Bits: 4}, Block: models.QuantBlock,
					RoundScale: tensors.RoundHalf}
				if w == models.Int8 {
					format.Bits = 8
				}
				same = withLatent(t, rounded(t, ck, format), ck)
			}
			same = rewrite(t, same, func(name string, shape []int64, x []float32) {
				c := &ck.Config
				if w.Quantised() && !notQuantised(c, name, shape) && !ofLatent(c, name) ||
					isRouter(c, name) && !bySoftmax(c.Experts) { // which has 32 bits
					return
				}
				own := d
				if isExpert(c, name) { // which has fp16 in all formats
					own = tensors.F16
				}
				for i, v := range x {
					x[i] = nearest(t, own, v)
				}
			})
			r, path := buildTo(t, same, Options{Weights: models.FP32})
			want := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
			m := interpret(t, built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true}), rotaryOf(t, ck))
			if d := distance(m.logits(g.Prompts[2]), want); d > tolerance {
				t.Errorf("%s %s: logits differ by %g", name, w, d)
			}
		}
	}
}

// withLatent returns ck with the matrices of latent attention of another one, which are not quantised on CUDA.
func withLatent(t *testing.T, ck, from *hf.Checkpoint) *hf.Checkpoint {
	return rewrite(t, ck, func(name string, _ []int64, x []float32) {
		if ofLatent(&ck.Config, name) {
			copy(x, wide(t, from, name))
		}
	})
}

// TestCUDARoundingCosts bounds what 16 bits cost if every result is rounded once: so far may a device be from 32 bits
// on these checkpoints, whose attention is sharp. Experts are those of the computation in 32 bits: a token near the
// border takes another one. Seen: up to 0.050 in bf16 (gpt-oss) and 0.0085 in fp16.
func TestCUDARoundingCosts(t *testing.T) {
	for _, name := range cudaNames(t) {
		ck, g := readGolden(t, name)
		for _, w := range cudaFormats(ck.Config) {
			bound, d := 0.01, computedIn(w)
			if d == tensors.BF16 {
				bound = 0.06
			}
			f := built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
			exact := interpret(t, f, rotaryOf(t, ck))
			want := exact.logits(g.Prompts[2])
			m := interpret(t, f, nil)
			m.pinned = exact.picked
			m.round = func(x float32) float32 { return nearest(t, d, x) }
			var noise, signal float64
			for i, row := range m.logits(g.Prompts[2]) {
				for j, x := range row {
					noise += math.Pow(float64(x-want[i][j]), 2)
					signal += math.Pow(float64(want[i][j]), 2)
				}
			}
			if e := math.Sqrt(noise / signal); e > bound || e == 0 {
				t.Errorf("%s %s: the relative error is %.4f, want at most %g", name, w, e, bound)
			}
		}
	}
}

// cudaNames lists the cases that CUDA takes, with heads of any size: in these small ones many have eight dimensions.
func cudaNames(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, name := range goldenNames(t) {
		ck, g := readGolden(t, name)
		if original := ck.Config.OriginalPositions; original != 0 && len(g.Prompts[2]) > original {
			continue // sequences end there
		}
		if _, err := newTarget(models.CUDA, models.BF16, ck.Config); err == nil {
			names = append(names, name)
		}
	}
	if len(names) < 40 {
		t.Fatalf("only %q", names)
	}
	return names
}

// cudaFormats lists the formats that CUDA takes for a model.
func cudaFormats(c hf.Config) []models.Weights {
	return slices.DeleteFunc(models.CUDA.Formats(), func(w models.Weights) bool {
		_, err := newTarget(models.CUDA, w, c)
		return err != nil
	})
}

// TestCUDARefusesByName: what has no graph for CUDA is refused before anything is written, and the error says what it
// is.
func TestCUDARefusesByName(t *testing.T) {
	ck, _ := readGolden(t, "bloom")
	_, err := Build(ck, io.Discard, Options{Device: models.CUDA, Weights: models.BF16})
	if want := "scores that fall with the distance (ALiBi), which runs on the CPU only"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	ck, _ = readGolden(t, "mixtral")
	c := ck.Config
	c.HeadDim = 16
	for _, try := range []struct {
		weights       models.Weights
		inner, hidden int
		want          string
	}{
		{models.BF16, 20, 60, "hidden_size is 60: experts in bf16 on cuda need a multiple of 8"},
		{models.Int8, 96, 96, "hidden_size is 96: experts in int8 on cuda need a multiple of 64"},
		{models.BF16, 20, 96, ""}, // what is within an expert is padded
		{models.Int4, 20, 64, ""},
	} {
		c.Experts.Intermediate, c.Hidden = try.inner, try.hidden
		err := Check(models.CUDA, try.weights, c)
		if try.want == "" && err != nil || try.want != "" && (err == nil || !strings.Contains(err.Error(), try.want)) {
			t.Errorf("%s, %d: %v", try.weights, try.inner, err)
		}
	}
}

// TestCUDAExpertsHaveWholeSteps: experts are in fp16, also in a model of bf16, and with zeros behind where their sizes
// are no whole steps.
func TestCUDAExpertsHaveWholeSteps(t *testing.T) {
	seen := 0
	for _, name := range cudaNames(t) {
		ck, _ := readGolden(t, name)
		c, e := ck.Config, ck.Config.Experts
		if e.N == 0 || !c.HasExperts(0) {
			continue
		}
		for w, step := range map[models.Weights]int{models.BF16: 8, models.FP16: 8, models.Int4: 64} {
			f := built(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
			inner, kind := (e.Intermediate+step-1)/step*step, "weight"
			width := []int{c.Hidden, inner}
			if w.Quantised() {
				kind = "codes"
				width = []int{(c.Hidden + 31) / 32 * 16, inner / 2}
			}
			first, second := f.inits["layer0.experts.gate_up."+kind], f.inits["layer0.experts.down."+kind]
			if !slices.Equal(first.dims, []int{e.N, 2 * inner, width[0]}) ||
				!slices.Equal(second.dims, []int{e.N, c.Hidden, width[1]}) {
				t.Errorf("%s in %s: %v and %v", name, w, first.dims, second.dims)
			}
			if !w.Quantised() && first.typ != expertElement.graph {
				t.Errorf("%s in %s: type %d", name, w, first.typ)
			}
			seen++
		}
	}
	if seen < 30 {
		t.Errorf("%d graphs were looked at", seen)
	}
}
