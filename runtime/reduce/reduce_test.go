package reduce

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/runtime/kernel/kerneltest"
	"tgi/runtime/llm"
)

// run answers questions about rows of logits. order chooses the order of the threads.
func run(p *kerneltest.Process, rows [][]float32, list []llm.Reduction, order uint32) []byte {
	p.T.Helper()
	vocab := len(rows[0])
	words, scratch := AppendRequest(nil, list, vocab)
	head := []uint32{uint32(vocab), uint32(len(rows)), uint32(len(list)), uint32(len(words)), uint32(scratch), order}
	return p.Ask(len(list)*AnswerBytes, head, slices.Concat(rows...), words)
}

// randomRow draws rows as models make them, and such as none should make.
func randomRow(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	sigma := []float64{0.01, 1, 3, 6, 60}[rng.IntN(5)]
	for i := range x {
		x[i] = float32(rng.NormFloat64() * sigma)
	}
	odd := []float32{float32(math.NaN()), negInf, float32(math.Copysign(0, -1)), 0, math.MaxFloat32, -math.MaxFloat32,
		math.SmallestNonzeroFloat32, -1e-40}
	switch rng.IntN(9) {
	case 0: // ties
		step := []float32{0.25, 1, 4}[rng.IntN(3)]
		for i := range x {
			x[i] = float32(math.Round(float64(x[i]/step))) * step
		}
	case 1: // all equal
		for i := range x {
			x[i] = 3
		}
	case 2: // few left
		for i := range x {
			if rng.IntN(1+n/200) > 0 {
				x[i] = negInf
			}
		}
	case 3:
		for range 1 + n/10 {
			x[rng.IntN(n)] = odd[rng.IntN(len(odd))]
		}
	case 4: // the best ones neighbours, as one thread sees them
		at := rng.IntN(Threads)
		for i := at; i < n; i += Threads {
			x[i] += 500
		}
	case 5: // ascending
		slices.Sort(x)
	case 6:
		for i := range x {
			x[i] = odd[rng.IntN(2)]
		}
		if rng.IntN(2) == 0 {
			x[rng.IntN(n)] = float32(math.Inf(1))
		}
	}
	return x
}

// randomQuestion draws a question about one of several rows.
func randomQuestion(rng *rand.Rand, rows, vocab int) llm.Reduction {
	q := llm.Reduction{Row: rng.IntN(rows), Scale: 1, Draw: llm.NoDraw, Raw: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		q.Scale = float32(1 / (0.01 + 2*rng.Float64()))
	} else if rng.IntN(8) == 0 {
		q.Scale = []float32{math.MaxFloat32, 1e-30, 1e7}[rng.IntN(3)]
	}
	if rng.IntN(2) == 0 {
		q.Draw = float64(rng.Uint64()>>11) * 0x1p-53
		if rng.IntN(8) == 0 {
			q.Draw = []float64{0, 1 - 0x1p-53}[rng.IntN(2)]
		}
	}
	for range rng.IntN(4) {
		e := llm.Edits{Kind: llm.EditKind(rng.IntN(2))}
		for _, t := range rng.Perm(vocab)[:rng.IntN(min(vocab, 3000)+1)] {
			e.Pairs = append(e.Pairs, llm.Edit{Token: llm.Token(t), Value: float32(rng.NormFloat64() * 3)})
		}
		q.Edits = append(q.Edits, e)
	}
	if rng.IntN(3) == 0 {
		q.Mask = make([]uint32, (vocab+31)/32)
		share := rng.IntN(4)
		for i := range q.Mask {
			q.Mask[i] = []uint32{0, rng.Uint32(), ^uint32(0), 1 << (i % 32) & -uint32(i%7/6)}[share]
		}
	}
	return q
}

// equal reports how two answers differ, to the last bit but the sign of 0.
func equal(a, b llm.Reduced) error {
	same := func(x, y float32) bool {
		return x == y || math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	}
	token := func(x, y llm.ReducedToken) bool {
		return x.Token == y.Token && same(x.Logit, y.Logit) && same(x.Raw, y.Raw)
	}
	switch {
	case a.Count != b.Count || a.Ties != b.Ties:
		return fmt.Errorf("%d tokens and %d ties, want %d and %d", b.Count, b.Ties, a.Count, a.Ties)
	case !same(a.Top, b.Top) || a.Sum != b.Sum || !same(a.RawTop, b.RawTop) || a.RawSum != b.RawSum:
		return fmt.Errorf("sums %v %v %v %v, want %v %v %v %v", b.Top, b.Sum, b.RawTop, b.RawSum, a.Top, a.Sum,
			a.RawTop,
			a.RawSum)
	case !token(a.Drawn, b.Drawn):
		return fmt.Errorf("drew %+v, want %+v", b.Drawn, a.Drawn)
	case !slices.EqualFunc(a.Candidates, b.Candidates, token):
		return fmt.Errorf("candidates %+v, want %+v", b.Candidates, a.Candidates)
	}
	return nil
}

// TestKernel: the kernel's source, compiled for the processor, gives what the reference gives, to the last bit, for all
// kinds of rows and questions; and the same bytes in whatever order threads run, and for a row alone.
func TestKernel(t *testing.T) {
	e := kerneltest.Start(t)
	rng := rand.New(rand.NewPCG(11, 12))
	sizes := []int{1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 2500, 6000, 20001, 49152, 128256, 151936}
	overflown := 0
	for round := range 1000 {
		vocab := sizes[rng.IntN(len(sizes))]
		if vocab > 40000 && rng.IntN(6) > 0 {
			vocab = sizes[rng.IntN(13)]
		}
		rows := make([][]float32, 1+rng.IntN(3))
		for i := range rows {
			rows[i] = randomRow(rng, vocab)
		}
		list := make([]llm.Reduction, 1+rng.IntN(4))
		for i := range list {
			list[i] = randomQuestion(rng, len(rows), vocab)
		}
		data := run(e, rows, list, 0)
		got := new(Answers).Read(data)
		for i := range list {
			want := Row(rows[list[i].Row], &list[i])
			if err := equal(want, got[i]); err != nil {
				t.Fatalf("round %d, vocabulary of %d, question %d: %.300v", round, vocab, i, err)
			}
			if want.Ties > Threads {
				overflown++
			}
		}
		if again := run(e, rows, list, 1+rng.Uint32()%500); string(again) != string(data) {
			t.Fatalf("round %d: another order of threads gives another answer", round)
		}
		one := list[len(list)-1]
		alone := [][]float32{rows[one.Row]}
		one.Row = 0
		if again := run(e, alone, []llm.Reduction{one}, 3); string(again) != string(data[len(data)-AnswerBytes:]) {
			t.Fatalf("round %d: a row alone has another answer", round)
		}
	}
	if overflown < 10 {
		t.Errorf("only %d rows have more ties than are sorted", overflown)
	}
}

// TestLargestVocabulary: the sum of as many weights of 1 as there may be does not overflow.
func TestLargestVocabulary(t *testing.T) {
	e := kerneltest.Start(t)
	x := make([]float32, MaxVocab)
	q := llm.Reduction{Scale: 1, Draw: 1 - 0x1p-53, Raw: true}
	want := Row(x, &q)
	got := new(Answers).Read(run(e, [][]float32{x}, []llm.Reduction{q}, 0))
	if err := equal(want, got[0]); err != nil || want.Sum != MaxVocab || want.Drawn.Token != MaxVocab-1 {
		t.Errorf("%v; sum %v, drew %d", err, want.Sum, want.Drawn.Token)
	}
}

// TestErrorBound: sums, and the mass in front of a drawn token, are as exact as llm.ReducedError says, compared with
// numbers of 200 bits.
func TestErrorBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	worst := 0.0
	for round := range 60 {
		x := randomRow(rng, 3000)
		q := llm.Reduction{Scale: float32(0.3 + 2*rng.Float64()), Draw: rng.Float64()}
		r := Row(x, &q)
		if r.Count == 0 || math.IsInf(float64(r.Top), 0) {
			continue
		}
		sum, before, through := new(big.Float).SetPrec(200), new(big.Float), new(big.Float)
		for i, v := range x {
			if llm.Token(i) == r.Drawn.Token {
				before.Set(sum)
			}
			if v > negInf {
				if w := math.Exp((float64(v) - float64(r.Top)) * float64(q.Scale)); w > 0 {
					sum.Add(sum, big.NewFloat(w))
				}
			}
			if llm.Token(i) == r.Drawn.Token {
				through.Set(sum)
			}
		}
		exact, _ := sum.Float64()
		low, _ := before.Float64()
		high, _ := through.Float64()
		off := math.Abs(r.Sum-exact) / exact
		if q.Draw >= 0 {
			off = max(off, low/exact-q.Draw, q.Draw-high/exact)
		}
		if worst = max(worst, off); off > llm.ReducedError {
			t.Errorf("round %d: off by %v", round, off)
		}
	}
	t.Logf("off by %.2g at most", worst)
}

// TestPTX: reduce.ptx was made from reduce.cu, rounds each product and sum on its own, and fits a device.
func TestPTX(t *testing.T) {
	code := kerneltest.Code(t, "reduce", Kernel, Source)
	_, code, _ = strings.Cut(code, "\n") // the options
	for _, bad := range []string{"fma", "mad.f32", "mul.f32", "add.f32", "sub.f32", "div.full", "div.approx", ".ftz",
		"ex2", "fp16"} {
		if strings.Contains(code, bad) {
			t.Errorf("reduce.ptx has %s", bad)
		}
	}
	for _, good := range []string{".target sm_80", ".visible .entry " + KernelName + "(", "div.rn.f32", "mul.rn.f32",
		fmt.Sprintf(".maxntid %d", Threads)} {
		if !strings.Contains(code, good) {
			t.Errorf("reduce.ptx lacks %s", good)
		}
	}
	shared := 0
	for _, m := range regexp.MustCompile(`\.shared \.align \d+ \.[bu](\d+) [^;]*?(?:\[(\d+)\])?;`).FindAllStringSubmatch(code, -1) {
		bits, _ := strconv.Atoi(m[1])
		n := 1
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2])
		}
		shared += bits / 8 * n
	}
	if shared < 32<<10 || shared > 48<<10 {
		t.Errorf("the kernel shares %d bytes, a block has 48 KiB", shared)
	}
}

// TestBarriers: threads wait for each other after each phase, which the processor, that runs them one by one, cannot
// show.
func TestBarriers(t *testing.T) {
	source, err := os.ReadFile("reduce.cu")
	if err != nil {
		t.Fatal(err)
	}
	_, kernel, _ := strings.Cut(string(source), "KERNEL(tgi_reduce)")
	calls := regexp.MustCompile(`EACH\(t\)|BARRIER\(\)`).FindAllStringIndex(kernel, -1)
	phases := 0
	for i, at := range calls {
		if kernel[at[0]] != 'E' {
			continue
		}
		phases++
		if i+1 < len(calls) && kernel[calls[i+1][0]] == 'E' {
			t.Errorf("no barrier after line %d of the kernel", strings.Count(kernel[:at[0]], "\n"))
		}
	}
	if phases < 20 {
		t.Errorf("%d phases", phases)
	}
}
