package ort

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// tiny is a model of two attention layers without normalisation: embedding,
// packed projection, attention, projection, residual, head.
var tiny = Options{Layers: 2, KVHeads: 1, HeadDim: 16, Vocab: 37, MaxLen: 512, Blocks: 64, Threads: 2}

// tinyModel writes the model of tiny.
func tinyModel(t testing.TB) string {
	const heads, width, positions, half = 2, 32, 512, 8
	r := rand.New(rand.NewPCG(7, 7))
	g := &graph{}
	small := func(n int) []float32 {
		x := normal(r, n)
		for i := range x {
			x[i] *= 0.3
		}
		return x
	}
	var cos, sin []float32
	for p := range positions {
		for i := range half {
			a := float64(p) * math.Pow(10000, -float64(i)/half)
			cos, sin = append(cos, float32(math.Cos(a))), append(sin, float32(math.Sin(a)))
		}
	}
	g.floats("cos", cos, positions, half)
	g.floats("sin", sin, positions, half)
	g.floats("embedding", normal(r, tiny.Vocab*width), tiny.Vocab, width)
	g.floats("head", normal(r, tiny.Vocab*width), width, tiny.Vocab)
	g.value(false, "input_ids", int64s, "T")
	g.value(false, "cu_seqlens", int32s, "B1")
	g.value(false, "past_lens", int32s, "B")
	g.value(false, "block_table", int32s, "B", "M")
	g.value(false, "slot_mapping", int32s, "T")
	g.value(false, "logit_rows", int64s, "n")
	g.value(false, "cache_form", int32s, 1)
	g.node("", "Gather", []string{"embedding", "input_ids"}, "x0", nil)
	x := "x0"
	for i, l := range []string{"0", "1"} {
		g.value(false, "k_cache."+l, uint8s, "blocks", "bytes")
		g.value(false, "v_cache."+l, uint8s, "blocks", "bytes")
		g.floats("qkv_w"+l, small(width*(width+2*16)), width, width+2*16)
		g.floats("o_w"+l, small(width*width), width, width)
		g.node("", "MatMul", []string{x, "qkv_w" + l}, "qkv"+l, nil)
		g.node("tgi", "PagedAttention", []string{"qkv" + l, "", "", "k_cache." + l, "v_cache." + l, "cu_seqlens",
			"past_lens", "block_table", "cos", "sin", "slot_mapping", "", "", "", "", "", "cache_form"}, "a"+l,
			attrs{"num_heads": heads, "kv_num_heads": 1, "head_size": 16, "do_rotary": 1})
		g.node("", "MatMul", []string{"a" + l, "o_w" + l}, "o"+l, nil)
		next := "x" + []string{"1", "2"}[i]
		g.node("", "Add", []string{x, "o" + l}, next, nil)
		x = next
	}
	g.node("", "Gather", []string{x, "logit_rows"}, "rows", nil)
	g.node("", "MatMul", []string{"rows", "head"}, "logits", nil)
	g.value(true, "logits", float32s, "n", tiny.Vocab)
	return g.write(t)
}

func openTiny(t testing.TB) *Paged {
	t.Helper()
	start(t)
	o := tiny
	o.ModelPath = tinyModel(t)
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// seq is a sequence as the engine would keep it.
type seq struct {
	tokens []llm.Token
	done   int // tokens in the cache
	blocks []int32
}

// step builds the step that feeds the next n[i] tokens of each sequence and
// asks for the logits of each one's last token.
func step(seqs []*seq, n []int) *llm.Step {
	s := &llm.Step{CuSeqlens: []int32{0}}
	for _, q := range seqs {
		s.MaxBlocks = max(s.MaxBlocks, len(q.blocks))
	}
	for i, q := range seqs {
		s.PastLens = append(s.PastLens, int32(q.done))
		for p := q.done; p < q.done+n[i]; p++ {
			s.Tokens = append(s.Tokens, q.tokens[p])
			s.SlotMapping = append(s.SlotMapping, q.blocks[p/blockSize]*blockSize+int32(p%blockSize))
		}
		q.done += n[i]
		s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
		row := slices.Repeat([]int32{-1}, s.MaxBlocks)
		copy(row, q.blocks)
		s.BlockTable = append(s.BlockTable, row...)
		s.LogitRows = append(s.LogitRows, int32(len(s.Tokens)-1))
	}
	return s
}

func forward(t testing.TB, p *Paged, s *llm.Step) []float32 {
	t.Helper()
	logits, err := p.Forward(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(logits) != len(s.LogitRows)*p.Vocab() {
		t.Fatalf("%d logits, want %d rows of %d", len(logits), len(s.LogitRows), p.Vocab())
	}
	return slices.Clone(logits)
}

func prompt(r *rand.Rand, n int) []llm.Token {
	x := make([]llm.Token, n)
	for i := range x {
		x[i] = llm.Token(r.IntN(tiny.Vocab))
	}
	return x
}

// near compares logits up to the rounding of matrix products of other heights.
func near(t testing.TB, what string, got, want []float32) {
	t.Helper()
	wide := make([]float64, len(want))
	for i, v := range want {
		wide[i] = float64(v)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	if d := apart(got, wide); !(d < 1e-5) {
		t.Errorf("%s: logits differ by %.3g", what, d)
	}
}

func TestForwardGivesTheSameHoweverAPromptIsCut(t *testing.T) {
	p := openTiny(t)
	r := rand.New(rand.NewPCG(3, 4))
	tokens := prompt(r, 90)
	whole := &seq{tokens: tokens, blocks: []int32{9, 3, 20, 7, 50, 1}}
	want := forward(t, p, step([]*seq{whole}, []int{90}))
	for _, cuts := range [][]int{{1, 89}, {16, 16, 58}, {17, 30, 42, 1}, {89, 1}} {
		q := &seq{tokens: tokens, blocks: []int32{2, 60, 4, 5, 6, 63}}
		other := &seq{tokens: prompt(r, 200), blocks: []int32{30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42}}
		var got []float32
		for i, n := range cuts {
			logits := forward(t, p, step([]*seq{other, q}, []int{1 + 7*i, n}))
			got = logits[p.Vocab():]
		}
		near(t, "cut prompt", got, want)
	}
}

func TestForwardWithoutLogitRows(t *testing.T) {
	p := openTiny(t)
	r := rand.New(rand.NewPCG(3, 4))
	a := &seq{tokens: prompt(r, 40), blocks: []int32{1, 2, 3}}
	b := &seq{tokens: a.tokens, blocks: []int32{4, 5, 6}}
	silent := step([]*seq{a}, []int{39})
	silent.LogitRows = nil
	forward(t, p, silent)
	got := forward(t, p, step([]*seq{a}, []int{1}))
	near(t, "after a silent step", got, forward(t, p, step([]*seq{b}, []int{40})))
}

func TestCopyBlocksForksASequence(t *testing.T) {
	p := openTiny(t)
	r := rand.New(rand.NewPCG(5, 6))
	a := &seq{tokens: prompt(r, 60), blocks: []int32{1, 2, 3, 4}}
	forward(t, p, step([]*seq{a}, []int{40}))
	// The fork shares two full blocks and owns a copy of the third.
	b := &seq{tokens: slices.Clone(a.tokens), done: 40, blocks: []int32{1, 2, 10, 11}}
	for i := 40; i < 60; i++ {
		b.tokens[i] = llm.Token(r.IntN(tiny.Vocab))
	}
	if err := p.CopyBlocks([]llm.BlockCopy{{Dst: 10, Src: 3}}); err != nil {
		t.Fatal(err)
	}
	got := forward(t, p, step([]*seq{a, b}, []int{20, 20}))
	for i, q := range []*seq{a, b} {
		alone := &seq{tokens: q.tokens, blocks: []int32{20, 21, 22, 23}}
		near(t, "forked", got[i*p.Vocab():][:p.Vocab()], forward(t, p, step([]*seq{alone}, []int{60})))
	}
}

func TestForwardRefusesBadSteps(t *testing.T) {
	p := openTiny(t)
	good := func() *llm.Step {
		a := &seq{tokens: make([]llm.Token, 20), blocks: []int32{5, 6}}
		b := &seq{tokens: make([]llm.Token, 20), blocks: []int32{7, 8}}
		return step([]*seq{a, b}, []int{18, 1})
	}
	if _, err := p.Forward(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(s *llm.Step){
		"0 tokens in 0 rows":                       func(s *llm.Step) { *s = llm.Step{} },
		"CuSeqlens has 2 entries, want 3":          func(s *llm.Step) { s.CuSeqlens = s.CuSeqlens[:2] },
		"CuSeqlens spans 0 to 20":                  func(s *llm.Step) { s.CuSeqlens[2] = 20 },
		"row 0: CuSeqlens gives it tokens 0":       func(s *llm.Step) { s.CuSeqlens[1] = 0 },
		"row 0: CuSeqlens gives it tokens 0 to 99": func(s *llm.Step) { s.CuSeqlens[1] = 99 },
		"BlockTable has 3 entries":                 func(s *llm.Step) { s.BlockTable = s.BlockTable[:3] },
		"SlotMapping has 0 entries":                func(s *llm.Step) { s.SlotMapping = nil },
		"token 3 is 37":                            func(s *llm.Step) { s.Tokens[3] = 37 },
		"row 1: PastLens is -1":                    func(s *llm.Step) { s.PastLens[1] = -1 },
		"row 1: PastLens is 32":                    func(s *llm.Step) { s.PastLens[1] = 32 },
		"row 0: BlockTable[1] is 64":               func(s *llm.Step) { s.BlockTable[1] = 64 },
		"row 1: BlockTable[0] is -1":               func(s *llm.Step) { s.BlockTable[2] = -1 },
		"row 0: SlotMapping[2] is 83":              func(s *llm.Step) { s.SlotMapping[2]++ },
		"row 0: SlotMapping[0] is -2":              func(s *llm.Step) { s.SlotMapping[0] = -2 },
		"3 KeyEnds for 19 tokens":                  func(s *llm.Step) { s.KeyEnds = []int32{1, 2, 3} },
		"3 Places for 19 tokens":                   func(s *llm.Step) { s.Places = []int32{0, 0, 0} },
		"LogitRows[1] is 19":                       func(s *llm.Step) { s.LogitRows[1] = 19 },
		"LogitRows[1] is 17, must be above 17":     func(s *llm.Step) { s.LogitRows[1] = 17 },
		"LogitRows[0] is -1":                       func(s *llm.Step) { s.LogitRows[0] = -1 },
	} {
		s := good()
		spoil(s)
		_, err := p.Forward(s)
		if !errors.Is(err, llm.ErrBackend) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	o := p.o.bounds()
	o.places = true
	for want, spoil := range map[string]func(places []int32) []int32{
		"":                                  func(places []int32) []int32 { return places },
		"56 Places for 19 tokens":           func(places []int32) []int32 { return places[1:] },
		"place 4 of Places is -1":           func(places []int32) []int32 { places[4] = -1; return places },
		fmt.Sprintf("is %d, the", o.maxLen): func(p []int32) []int32 { return append(p[1:], int32(o.maxLen)) },
	} {
		s := good()
		s.Places = spoil(make([]int32, 3*len(s.Tokens)))
		if err := checkStep(s, o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, c := range []llm.BlockCopy{{Dst: 64}, {Src: -1}} {
		if err := p.CopyBlocks([]llm.BlockCopy{c}); !errors.Is(err, llm.ErrBackend) {
			t.Errorf("CopyBlocks(%v) = %v", c, err)
		}
	}
	if _, err := p.Forward(good()); err != nil {
		t.Errorf("a good step after bad ones: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	start(t)
	path := tinyModel(t)
	broken := filepath.Join(t.TempDir(), "broken.onnx")
	if err := os.WriteFile(broken, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(o *Options){
		"option Layers is 0":               func(o *Options) { o.Layers = 0 },
		"option HeadDim is 584":            func(o *Options) { o.HeadDim = 584 },
		"option HeadDim is 12, must be":    func(o *Options) { o.HeadDim = 12 },
		"option Threads is -1":             func(o *Options) { o.Threads = -1 },
		"input \"k_cache.2\" is missing":   func(o *Options) { o.Layers = 3 },
		"input \"k_cache.1\" is not known": func(o *Options) { o.Layers = 1 },
		"output \"logits\" has element":    func(o *Options) { o.Vocab = 36 },
		`option Cache is "fp8", must be`:   func(o *Options) { o.Cache = "fp8" },
		"missing.onnx":                     func(o *Options) { o.ModelPath = "missing.onnx" },
		"broken.onnx":                      func(o *Options) { o.ModelPath = broken },
	} {
		o := tiny
		o.ModelPath = path
		change(&o)
		p, err := Open(o)
		if p != nil {
			p.Close()
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCloseEndsTheModel(t *testing.T) {
	p := openTiny(t)
	a := &seq{tokens: make([]llm.Token, 4), blocks: []int32{0}}
	s := step([]*seq{a}, []int{4})
	p.Close()
	p.Close()
	if _, err := p.Forward(s); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("Forward after Close: %v", err)
	}
	if err := p.CopyBlocks(nil); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("CopyBlocks after Close: %v", err)
	}
}
