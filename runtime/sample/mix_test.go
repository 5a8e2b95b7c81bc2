package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
)

// TestMix compares with the definition in float64.
func TestMix(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for n := range 300 {
		vocab, rows := 1+r.IntN(3000), 2+r.IntN(3)
		m := Mix{Alpha: []float32{0, 0.1, 1}[n%3]}
		in, logs := make([][]float32, rows), make([][]float64, rows)
		for i := range in {
			m.Weights = append(m.Weights, float32(r.NormFloat64()*3))
			in[i], logs[i] = make([]float32, vocab), make([]float64, vocab)
			sum := 0.0
			for k := range in[i] {
				in[i][k] = float32(r.NormFloat64() * 4)
				if k > 0 && r.IntN(50) == 0 {
					in[i][k] = []float32{negInf, nan}[r.IntN(2)]
				}
				if v := float64(in[i][k]); v == v {
					sum += math.Exp(v)
				}
			}
			for k, v := range in[i] {
				logs[i][k] = float64(v) - math.Log(sum)
			}
		}
		best := math.Inf(-1)
		for _, v := range logs[0] {
			if v > best {
				best = v
			}
		}
		m.Combine(in)
		least := 0.0 // of those that are not left out
		for k, v := range in[0] {
			if logs[0][k] >= best+math.Log(float64(m.Alpha))-1e-5 && v > negInf {
				least = min(least, float64(v))
			}
		}
		for k := range vocab {
			want := 0.0
			for i := range rows {
				want += float64(m.Weights[i]) * logs[i][k]
				if !(logs[i][k] > math.Inf(-1)) {
					want = math.NaN()
				}
			}
			got := float64(in[0][k])
			switch near := math.Abs(logs[0][k] - best - math.Log(float64(m.Alpha))); {
			case want != want:
				if !math.IsInf(got, -1) {
					t.Fatalf("round %d, token %d: %v, want -Inf", n, k, got)
				}
			case near < 1e-4: // either way
			case m.Alpha > 0 && logs[0][k] < best+math.Log(float64(m.Alpha)):
				if !(math.Abs(got-(least+leftOut+logs[0][k])) < 1e-2) {
					t.Fatalf("round %d, token %d: %v, want it below %v", n, k, got, least)
				}
			case !(math.Abs(got-want) < 2e-3):
				t.Fatalf("round %d, token %d: %v, want %v", n, k, got, want)
			}
		}
	}
}

// TestMixOfNothing: a row without a token leaves none.
func TestMixOfNothing(t *testing.T) {
	m := Mix{Weights: []float32{2, -1}}
	for _, rows := range [][][]float32{{{1, 2}, {negInf, nan}}, {{nan, negInf}, {1, 2}}} {
		if m.Combine(rows); rows[0][0] != negInf || rows[0][1] != negInf {
			t.Errorf("%v", rows[0])
		}
	}
	for rows, m := range map[int]Mix{1: {Weights: []float32{1}}, 2: {Weights: []float32{1, 1}, Alpha: nan},
		3: {Weights: []float32{1, 1}}, 4: {Weights: []float32{1, 1, 1, nan}}} {
		if err := m.Check(rows); !errors.Is(err, llm.ErrInvalid) {
			t.Errorf("%d rows, %+v: %v", rows, m, err)
		}
	}
}
