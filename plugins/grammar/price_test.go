package grammar_test

import (
	"context"
	"errors"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// nested is a term of several levels, each of which contains the one below it twice.
func nested(levels int) *ir.Grammar {
	var b irtest.Builder
	x := b.Lit("x")
	for range levels {
		x = b.And(b.Concat(x, x), b.Not(x))
	}
	b.Define(b.Declare("start"), b.Term(x))
	return &b.G
}

// TestPrices checks that a term of many levels, which examines the same terms again and again, costs 72 million units,
// so that a bound on units bounds time. The bounds here are a tenth below and above.
func TestPrices(t *testing.T) {
	v := largeVocab()
	for units, enough := range map[int64]bool{65_000_000: false, 79_000_000: true} {
		_, err := v.Compile(context.Background(), nested(12), grammar.Limits{CompileWork: units})
		if enough && err != nil || !enough && !errors.Is(err, grammar.ErrLimit) {
			t.Errorf("with %d units: %v", units, err)
		}
	}
}
