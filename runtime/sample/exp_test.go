package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestExpNeg(t *testing.T) {
	if got := expNeg(0); got != 1 {
		t.Errorf("expNeg(0) = %v, want exactly 1", got)
	}
	worst := 0.0
	for d := float32(0); d < spread; d += 1.37e-4 {
		want := math.Exp(-float64(d))
		worst = max(worst, math.Abs(float64(expNeg(d))/want-1))
	}
	if worst > 6e-7 {
		t.Errorf("relative error %g, want at most 6e-7", worst)
	}
	// The last value below the bound is still inside the table.
	d := math.Nextafter32(spread, 0)
	if got, want := float64(expNeg(d)), math.Exp(-float64(d)); math.Abs(got/want-1) > 6e-7 {
		t.Errorf("expNeg(%v) = %g, want %g", d, got, want)
	}
}

func TestWeight(t *testing.T) {
	nan := float32(math.NaN())
	for _, d := range []float32{-spread, -40, -math.MaxFloat32, negInf, nan} {
		if got := weight(d); got != 0 {
			t.Errorf("weight(%v) = %v, want 0", d, got)
		}
	}
}

func TestSumExpAndGreatest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 150 {
		x := normals(rng, n, 3)
		for _, i := range []int{5, 17, 18, 67} {
			if i < n {
				x[i] = []float32{float32(math.NaN()), negInf, -1000}[i%3]
			}
		}
		top := negInf
		for _, v := range x {
			if v > top {
				top = v
			}
		}
		if got := greatest(x); got != top {
			t.Errorf("n=%d: greatest = %v, want %v", n, got, top)
		}
		for _, scale := range []float32{1, 0.5, 3} {
			want := 0.0
			for _, v := range x {
				if e := math.Exp(float64(v-top) * float64(scale)); e == e {
					want += e
				}
			}
			if got := sumExp(x, top, scale); math.Abs(got-want) > 2e-6*want {
				t.Errorf("n=%d scale=%v: sumExp = %v, want %v", n, scale, got, want)
			}
		}
	}
}

func TestPromptLogprob(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name   string
		logits []float32
		next   uint32
		want   float64
	}{
		{"three", []float32{1, 2, 3}, 1, 2 - math.Log(math.Exp(1)+math.Exp(2)+math.Exp(3))},
		{"one", []float32{7}, 0, 0},
		{"far", []float32{0, -500}, 1, -500},
		{"nan counts as -inf", []float32{0, nan, 0}, 1, math.Inf(-1)},
		{"nan weighs nothing", []float32{0, nan, 0}, 2, -math.Ln2},
		{"inf takes all", []float32{0, inf, inf}, 2, -math.Ln2},
		{"beside inf", []float32{0, inf, inf}, 0, math.Inf(-1)},
		{"outside", []float32{0, 1}, 2, math.NaN()},
		{"nothing", []float32{nan, negInf}, 0, math.NaN()},
		{"empty", nil, 0, math.NaN()},
	} {
		got := float64(PromptLogprob(c.logits, c.next))
		if same := got == c.want || math.Abs(got-c.want) < 1e-6 || got != got && c.want != c.want; !same {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPromptTop: no more than were asked for, whatever ties with the last, and none of probability 0.
func TestPromptTop(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		logits []float32
		next   uint32
		n      int
		want   []uint32
	}{
		{[]float32{1, 3, 2, 0}, 3, 2, []uint32{1, 2}},
		{[]float32{5, 5, 5, 5, 5}, 4, 2, []uint32{0, 1}},
		{[]float32{1, 2}, 0, 20, []uint32{1, 0}},
		{[]float32{0, nan, 0}, 1, 3, []uint32{0, 2}},
		{[]float32{0, inf, 1}, 0, 3, []uint32{1}},
		{[]float32{nan, negInf}, 0, 1, nil},
		{[]float32{0, 1}, 2, 1, nil},
	} {
		logprob, top := PromptTop(slices.Clone(c.logits), c.next, c.n)
		if want := PromptLogprob(slices.Clone(c.logits), c.next); logprob != want && !(logprob != logprob &&
			want != want) {
			t.Errorf("%v: %v, want %v", c.logits, logprob, want)
		}
		var got []uint32
		for _, k := range top {
			got = append(got, k.Token)
			if want := PromptLogprob(slices.Clone(c.logits), k.Token); k.Logprob != want {
				t.Errorf("%v: token %d has %v, want %v", c.logits, k.Token, k.Logprob, want)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.logits, got, c.want)
		}
	}
}
