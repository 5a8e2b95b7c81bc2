package decoder

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// kernelInfo has ONNX Runtime print which attention kernel each node takes.
const kernelInfo = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO"

// TestCUDAGraphsRunOnTheDevice opens every golden checkpoint, in every format, on ONNX Runtime's real CUDA provider
// over a device that computes nothing: all nodes are on it, nothing is copied between nodes, attention reads the cache
// in place, and a layer makes as many calls as it was designed to. The process loads one library, so it is one of its
// own.
func TestCUDAGraphsRunOnTheDevice(t *testing.T) {
	library := fake.Need(t)
	if os.Getenv(kernelInfo) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), kernelInfo+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		opened := strings.Split(string(out), "opened ")[1:]
		want := 0
		for _, name := range cudaNames(t) {
			ck, _ := readGolden(t, name)
			want += len(cudaFormats(ck.Config))
		}
		if len(opened) != want {
			t.Errorf("%d models were opened, want %d", len(opened), want)
		}
		for _, model := range opened {
			all, flash := strings.Count(model, "SdpaKernel="), strings.Count(model, "SdpaKernel=FLASH_ATTENTION")
			if strings.HasPrefix(model, t.Name()+"/deepseek") || strings.HasPrefix(model, t.Name()+"/glm4-moe-lite") {
				flash = strings.Count(model, "SdpaKernel=LATENT_ATTENTION")
			}
			if all == 0 || flash != all {
				t.Errorf("%d of %d steps of attention by FlashAttention: %s", flash, all, model)
			}
			if strings.Contains(model, "fpA_intB") { // the backend opens the model once more, without them
				t.Errorf("fused products failed: %s", model)
			}
		}
		return
	}
	device := fake.Load(t)
	if err := ort.Init(library); err != nil {
		t.Fatal(err)
	}
	for _, name := range cudaNames(t) {
		ck, g := readGolden(t, name)
		if checkSizes(models.CUDA, models.Int4, &ck.Config) != nil {
			ck = withSizes(t, ck.Config)
		}
		for _, w := range cudaFormats(ck.Config) {
			t.Run(name+" "+string(w), func(t *testing.T) { runOnDevice(t, device, ck, w, g.Prompts) })
		}
	}
}

// withSizes returns a checkpoint like that of c with heads, rotary embeddings and experts of sizes that the device
// takes, and weights that say nothing.
func withSizes(t *testing.T, c hf.Config) *hf.Checkpoint {
	t.Helper()
	c.Rope.Dim = max(16, c.Rope.Dim*64/c.HeadDim/16*16)
	c.HeadDim = 64
	if c.Latent.Rank != 0 {
		c.Latent.Rank, c.Latent.Rope, c.Rope.Dim = 48, 16, 16
	}
	if c.Experts.N > 0 {
		c.Hidden, c.Experts.Intermediate = 64, 64
	}
	ck := fixture(t, c, func(map[string]safetensors.Spec) {})
	return rewrite(t, ck, func(_ string, _ []int64, x []float32) {
		for i := range x {
			x[i] = 0.01
		}
	})
}

func runOnDevice(t *testing.T, device *fake.Device, ck *hf.Checkpoint, w models.Weights, prompts [][]llm.Token) {
	fmt.Printf("opened %s\n", t.Name())
	r, path := buildTo(t, ck, Options{Device: models.CUDA, Weights: w})
	c := ck.Config
	o := ort.CUDAOptions{ModelPath: path, Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Latent: r.Arch.Latent, Places: r.Arch.Places, Vocab: c.Vocab, MaxLen: c.MaxPositions,
		BlockSize: r.Layout.BlockSize, MaxBlocks: 8, StepTokens: 64,
		StepRows: 4, MixedGEMM: w.Quantised(), Graphs: []int{1}}
	m, err := ort.OpenCUDA(o)
	if err != nil {
		t.Fatal(err) // a node that only the CPU has, too
	}
	defer m.Close()
	nodes, err := m.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, n := range nodes {
		count[n.Operator]++
		if n.Provider != "CUDAExecutionProvider" || strings.HasPrefix(n.Operator, "Memcpy") {
			t.Errorf("%+v", n)
		}
	}
	linear, routers := []bool{c.HeadBias}, []bool{} // whether each has a bias
	for i := range c.Layers {
		linear = append(linear, c.QKVBias, c.OutBias)
		if c.Latent.Rank != 0 {
			linear = append(linear, false) // queries beside keys and values
		}
		if c.Latent.QRank != 0 { // of which there is a vector first
			linear = append(linear, c.QKVBias)
		}
		if !c.HasExperts(i) {
			for range 1 + c.Projections() {
				linear = append(linear, c.MLPBias)
			}
			continue
		}
		routers = append(routers, c.Experts.Bias)
		if c.Experts.Shared > 0 {
			linear = append(linear, false, false, false)
		}
		if c.Experts.SharedGate {
			routers = append(routers, false)
		}
	}
	biases := func(list []bool) (n int) {
		for _, has := range list {
			if has {
				n++
			}
		}
		return n
	}
	wanted := map[string]int{"PagedAttention": c.Layers, "Gemm": len(linear) + len(routers)}
	if c.Latent.Rank != 0 {
		wanted["MatMul"] = 2 * c.Layers // of each head, before and behind attention
	}
	adds, mixture := 0, "MoE"
	if w.Quantised() {
		wanted["MatMulNBits"], wanted["Gemm"] = len(linear), len(routers)
		adds, mixture = biases(linear), "QMoE"
	}
	for i := range c.Layers {
		if c.HasExperts(i) {
			wanted[mixture]++
		}
	}
	if c.Norm == (hf.Norm{Eps: c.Norm.Eps}) && !c.Parallel && c.Gated && c.Activation == hf.SiLU &&
		c.QKNorm.Over <= hf.QKNormHead && !c.QKNorm.Layer && c.Tensors.AttnNorm != "" && c.Tensors.AttnPost == "" &&
		c.Tensors.MLPPost == "" && c.Scales.Embed == 1 && c.Scales.Residual == 1 && c.Scales.Logits == 1 &&
		c.LogitCap == 0 && c.Experts.N == 0 && !r.Arch.Places { // Llama and its relatives
		maps.Copy(wanted, map[string]int{"Add": adds, "QuickGelu": c.Layers, "Mul": c.Layers,
			"SkipSimplifiedLayerNormalization": 2 * c.Layers, "Cast": 1, "Split": 0})
	}
	if c.Latent.Rank != 0 {
		wanted["Gemm"] += c.Layers // which put keys together
	}
	for operator, want := range wanted {
		if count[operator] != want {
			t.Errorf("%d nodes are %s, want %d", count[operator], operator, want)
		}
	}
	s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: 1}
	for row, prompt := range prompts[:3] { // two prompts, and a token of a third row
		if row == 2 {
			prompt = prompt[:1]
		}
		for i := range prompt {
			s.SlotMapping = append(s.SlotMapping, int32(row*r.Layout.BlockSize+i))
		}
		s.Tokens = append(s.Tokens, prompt...)
		s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
		s.PastLens, s.BlockTable = append(s.PastLens, 0), append(s.BlockTable, int32(row))
		s.LogitRows = append(s.LogitRows, int32(len(s.Tokens)-1))
	}
	before := device.Counters()
	logits, err := m.Forward(s)
	if err != nil || len(logits) != 3*c.Vocab {
		t.Fatalf("%d logits: %v", len(logits), err)
	}
	got := device.Counters().Since(before)
	// ONNX Runtime spreads a Gemm's bias over the rows by a product of its own.
	times := c.Experts.N > 0 // products of experts in a new size are timed first
	products := len(linear) + biases(linear) + len(routers) + biases(routers)
	if c.Latent.Rank != 0 {
		products += 3 * c.Layers
	}
	if got.CopiesIn != 1 || got.CopiesOut != 1 || got.Waits != 1 && !times ||
		!w.Quantised() && got.Products != int64(products) {
		t.Errorf("a step of %d layers: %+v", c.Layers, got)
	}
	for past := range int32(3) { // the first is recorded, and others replay it
		one := &llm.Step{Tokens: prompts[0][:1], CuSeqlens: []int32{0, 1}, PastLens: []int32{past}, MaxBlocks: 1,
			BlockTable: []int32{0}, SlotMapping: []int32{past}, LogitRows: []int32{0}}
		if _, err := m.Forward(one); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Counts(); n.Graphs != 1 || n.Replays != 2 || n.Refused != 0 {
		t.Errorf("steps that decode: %+v", n)
	}
	if r.Adapted != nil {
		adaptersOnDevice(t, device, c, r, path, o, s)
	}
}
