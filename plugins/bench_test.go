package plugins

import (
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/logits"
)

// BenchmarkRequest is what a request pays before its first step and after its last, by language and sequences: Bind
// (validation with it), Begin, Sequence, Release, Close.
func BenchmarkRequest(b *testing.B) {
	for lang, wasm := range guesttest.SDK(b, "banned-and-boost") {
		s := open(b, Options{Specs: []Spec{spec(b, "a", wasm)}})
		for name, seeds := range map[string][]uint64{"1": {1}, "best-of-4": {1, 2, 3, 4}} {
			b.Run(lang+"/"+name, func(b *testing.B) {
				for b.Loop() {
					bound, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(`{"ban":[5]}`)}})
					if err != nil {
						b.Fatal(err)
					}
					if err := bound.Begin(ctx, prompt, 16, seeds); err != nil {
						b.Fatal(err)
					}
					for i := range seeds {
						bound.Sequence(i)
						bound.Release(i)
					}
					bound.Close()
				}
			})
		}
	}
}

// BenchmarkStep is one step of a guest that denies a token: through this package, and through the kind's alone.
func BenchmarkStep(b *testing.B) {
	s := open(b, Options{Specs: []Spec{spec(b, "a", guesttest.SDK(b, "banned-and-boost")["c"])}})
	bound := bind(b, s, 1, Call{Name: "a", Params: []byte(`{"ban":[5]}`)})
	defer bound.Close()
	p := bound.Sequence(0).Processors[0]
	defer bound.Release(0)
	x := row()
	step := func(process func(prompt, output []uint32, row []float32) (logits.Effect, error)) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := process(prompt, nil, x); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("set", step(p.Run))
	b.Run("kind", step(p.inner.Process))
}
