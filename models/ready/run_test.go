package ready

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// testdata holds what testdata/make_onnx_goldens.py wrote.
const testdata = "../testdata/onnx"

// golden is what Python computed: transformers for fp32, onnxruntime for the others.
type golden struct {
	Prompts [][]llm.Token `json:"prompts"`
	Tokens  [][]llm.Token `json:"tokens"`
	Logits  string        `json:"logits"`
	first   [][]float32   // logits of the first prompt, [position][vocab]
}

func readGolden(t *testing.T, folder, weights string, vocab int) (g golden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testdata, folder, "golden_"+weights+".json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(g.Logits)
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		row := make([]float32, vocab)
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		g.first, raw = append(g.first, row), raw[4*vocab:]
	}
	return g
}

// cases are the graphs with reference data.
var cases = []struct {
	folder, weights string
	// tolerance on logits, whose size is about 10.
	tolerance float64
	inPlace   bool
}{
	{"genai-fp32", "fp32", 1e-3, true},
	{"genai-int4", "q4", 1e-3, true},
	{"community", "fp16", 0.05, true},
	{"community", "q4f16", 0.05, true},
	{"genai-window", "fp32", 1e-3, true},
	{"genai-last", "q4", 1e-3, true},
	{"keep", "q4", 1e-3, true},
	{"positionless", "q4", 1e-3, false},
	{"hub", "fp32", 1e-3, false},
	{"hub", "q4", 1e-3, false},
	{"hub", "fp16", 0.05, false},
	{"hub", "q4f16", 0.05, false},
	{"hub", "int8", 1e-3, false},
}

// slabOf opens a graph with so many rows of rowLen tokens.
func slabOf(t *testing.T, folder, weights string, rows, rowLen int) (*Graph, *ort.Slab) {
	t.Helper()
	path, err := ort.Locate("")
	if err == nil {
		err = ort.Init(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(os.DirFS(filepath.Join(testdata, folder)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Pick(f.Variants, weights)
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.Read(v)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ort.OpenSlab(ort.SlabOptions{ModelPath: filepath.Join(testdata, folder, g.File), IDs: g.IDs, Mask: g.Mask,
		Positions: g.Positions, Keep: g.Keep, Logits: g.Logits, PastKey: g.PastKey, PastValue: g.PastValue,
		PresentKey: g.PresentKey, PresentValue: g.PresentValue, KVHeads: g.KVHeads, HeadDim: g.HeadDim, Half: g.Half,
		InPlace: g.InPlace, Alone: g.Alone, LastOnly: g.LastOnly, Vocab: g.Vocab, RowLen: rowLen, Rows: rows,
		Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return g, s
}

// part is a sequence's part of a step.
type part struct {
	block, past int
	tokens      []llm.Token
}

// forward computes parts and returns the logits of all their tokens.
func forward(t *testing.T, s *ort.Slab, parts ...part) [][]float32 { return compute(t, s, true, parts) }

// compute computes parts and returns the logits of all their tokens, or of their last ones.
func compute(t *testing.T, s *ort.Slab, all bool, parts []part) [][]float32 {
	t.Helper()
	st := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: 1}
	for _, p := range parts {
		for i, id := range p.tokens {
			if all || i == len(p.tokens)-1 {
				st.LogitRows = append(st.LogitRows, int32(len(st.Tokens)))
			}
			st.Tokens = append(st.Tokens, id)
			st.SlotMapping = append(st.SlotMapping, int32(p.block*s.BlockSize()+p.past+i))
		}
		st.CuSeqlens = append(st.CuSeqlens, int32(len(st.Tokens)))
		st.PastLens = append(st.PastLens, int32(p.past))
		st.BlockTable = append(st.BlockTable, int32(p.block))
	}
	flat, err := s.Forward(st)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for len(flat) > 0 {
		out = append(out, slices.Clone(flat[:s.Vocab()]))
		flat = flat[s.Vocab():]
	}
	return out
}

func best(logits []float32) llm.Token {
	at := 0
	for i, x := range logits {
		if x > logits[at] {
			at = i
		}
	}
	return llm.Token(at)
}

func difference(a, b []float32) (d float64) {
	for i := range a {
		d = max(d, math.Abs(float64(a[i]-b[i])))
	}
	return d
}

// TestGoldens compares logits with those of Python: of a prompt as a whole, in pieces and token by token.
func TestGoldens(t *testing.T) {
	for _, c := range cases {
		t.Run(c.folder+" "+c.weights, func(t *testing.T) {
			g, s := slabOf(t, c.folder, c.weights, 3, 160)
			if g.InPlace != c.inPlace || len(s.Notes()) > 0 {
				t.Errorf("in place: %v; %v", g.InPlace, s.Notes())
			}
			want := readGolden(t, c.folder, c.weights, g.Vocab)
			prompt := want.Prompts[0]
			for _, size := range []int{len(prompt), 4, 1} {
				worst, past := 0.0, 0
				for chunk := range slices.Chunk(prompt, size) {
					rows := compute(t, s, !g.LastOnly, []part{{1, past, chunk}})
					for i, row := range rows {
						worst = max(worst, difference(row, want.first[past+len(chunk)-len(rows)+i]))
					}
					past += len(chunk)
				}
				t.Logf("in pieces of %d: largest difference %.2g", size, worst)
				if bound := c.tolerance; worst > bound && !(g.Alone && size < len(prompt)) {
					t.Errorf("in pieces of %d: the largest difference is %g, want at most %g", size, worst, bound)
				}
			}
		})
	}
}

// TestGreedyTogether generates with sequences that join and leave at different times, and are computed anew, and
// compares all tokens with those of Python, where each was alone.
func TestGreedyTogether(t *testing.T) {
	for _, c := range cases {
		t.Run(c.folder+" "+c.weights, func(t *testing.T) {
			const rows = 5
			g, s := slabOf(t, c.folder, c.weights, rows, 100)
			want := readGolden(t, c.folder, c.weights, g.Vocab)
			random := rand.New(rand.NewPCG(1, 2))
			type running struct {
				prompt, block, past int
				tokens, out         []llm.Token
			}
			var active []*running
			free, done := random.Perm(rows), 0
			for step := 0; done < 24; step++ {
				if len(free) > 0 && random.IntN(4) == 0 {
					p := random.IntN(len(want.Prompts))
					active = append(active, &running{prompt: p, block: free[0], tokens: slices.Clone(want.Prompts[p])})
					free = free[1:]
				}
				// preempted, unless what a graph computes depends on how a prompt is cut
				if len(active) > 0 && len(free) > 0 && random.IntN(40) == 0 && !g.Alone {
					// all of it is computed anew, elsewhere
					r := active[random.IntN(len(active))]
					free = append(free, r.block)
					r.block, free = free[0], free[1:]
					r.past = 0
				}
				var parts []part
				var of []*running
				for _, i := range random.Perm(len(active)) {
					r := active[i]
					if random.IntN(8) == 0 && len(active) > 1 { // parked
						continue
					}
					n := len(r.tokens) - r.past
					if n > 1 && !g.Alone {
						n = 1 + random.IntN(n)
					}
					parts, of = append(parts, part{r.block, r.past, r.tokens[r.past : r.past+n]}), append(of, r)
				}
				if len(parts) == 0 {
					continue
				}
				logits := compute(t, s, false, parts)
				for i, p := range parts {
					r := of[i]
					r.past += len(p.tokens)
					if r.past == len(r.tokens) {
						r.out = append(r.out, best(logits[i]))
						r.tokens = append(r.tokens, r.out[len(r.out)-1])
					}
					if len(r.out) == 64 {
						if !slices.Equal(r.out, want.Tokens[r.prompt]) {
							t.Errorf("prompt %d: got  %v\nwant %v", r.prompt, r.out, want.Tokens[r.prompt])
						}
						done++
						free = append(free, r.block)
						active = slices.DeleteFunc(active, func(o *running) bool { return o == r })
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestCopies forks a sequence, as beams do: both go on as the one would.
func TestCopies(t *testing.T) {
	g, s := slabOf(t, "genai-fp32", "", 3, 100)
	want := readGolden(t, "genai-fp32", g.Weights, g.Vocab)
	prompt := want.Prompts[0]
	logits := forward(t, s, part{0, 0, prompt})
	if err := s.CopyBlocks([]llm.BlockCopy{{Dst: 2, Src: 0}}); err != nil {
		t.Fatal(err)
	}
	next := best(logits[len(logits)-1])
	for i := range 10 {
		both := forward(t, s, part{2, len(prompt) + i, []llm.Token{next}}, part{0, len(prompt) + i, []llm.Token{next}})
		if next != want.Tokens[0][i] || difference(both[0], both[1]) != 0 {
			t.Fatalf("token %d: %d, want %d; rows differ by %g", i, next, want.Tokens[0][i], difference(both[0], both[1]))
		}
		next = best(both[0])
	}
}

func Example() {
	f, err := Open(os.DirFS(filepath.Join(testdata, "hub")))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range f.Variants {
		g, err := f.Read(v)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(g.Weights, g.File, strings.Join(g.Data, " "), g.Layers(), g.KVHeads, g.HeadDim, g.Half, g.Alone)
	}
	// Output:
	// q4 onnx/model_q4.onnx  2 2 16 false false
	// fp32 onnx/model.onnx onnx/model.onnx_data 2 2 16 false false
	// q4f16 onnx/model_q4f16.onnx  2 2 16 true false
	// fp16 onnx/model_fp16.onnx  2 2 16 true false
	// int8 onnx/model_int8.onnx  2 2 16 false true
}
