package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// TestDoublingIsBoundedBeforeItIsDone checks that regular expressions which contain the previous one twice, level by
// level, are refused when they are read, or run within little memory. It measures allocations, not time; without the
// bounds some of these never end.
func TestDoublingIsBoundedBeforeItIsDone(t *testing.T) {
	const most = 64 << 20
	v := largeVocab()
	for name, level := range map[string]func(b *irtest.Builder, x uint32) uint32{
		"optional pairs": func(b *irtest.Builder, x uint32) uint32 { return b.Union(b.Lit(""), b.Concat(x, x)) },
		"pairs":          func(b *irtest.Builder, x uint32) uint32 { return b.Concat(x, x) },
		"counted":        func(b *irtest.Builder, x uint32) uint32 { return b.Repeat(b.Concat(x, x), 0, 9) },
		"outsides":       func(b *irtest.Builder, x uint32) uint32 { return b.And(b.Concat(x, x), b.Not(x)) },
	} {
		for _, levels := range []int{8, 16, 20, 300} {
			t.Run(fmt.Sprint(name, " ", levels), func(t *testing.T) {
				var b irtest.Builder
				x := b.Lit("x")
				for range levels {
					x = level(&b, x)
				}
				b.Define(b.Declare("start"), b.Term(x))
				if err := b.G.Check(); err != nil {
					if !errors.Is(err, ir.ErrLimit) {
						t.Error(err)
					}
					return
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				g, err := v.Compile(context.Background(), &b.G, grammar.Limits{})
				if err == nil {
					err = g.Start().Mask(make([]uint32, g.Words()))
				}
				runtime.ReadMemStats(&after)
				took := after.TotalAlloc - before.TotalAlloc
				t.Logf("%.1f MiB, %v", float64(took)/(1<<20), err)
				if err != nil && !errors.Is(err, grammar.ErrLimit) {
					t.Errorf("want a grammar or ErrLimit, got %v", err)
				}
				if took > most {
					t.Errorf("%d bytes were allocated, want at most %d", took, most)
				}
			})
		}
	}
}
