package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir/irtest"
)

// TestCompileYields: a compilation that takes long stops to ask whether others want the processor, and ends when it is
// cancelled meanwhile; what it makes does not ask any more.
func TestCompileYields(t *testing.T) {
	var b irtest.Builder
	var texts []uint32
	for i := range 20_000 {
		texts = append(texts, b.Text(fmt.Sprintf("word %d", i)))
	}
	b.G.Start = b.Declare("start")
	b.Define(b.G.Start, b.Choice(texts...))
	v := grammar.NewVocab(words{{text: "word"}}, 0)
	asked := 0
	g, err := v.Compile(t.Context(), &b.G, grammar.Limits{Yield: func() { asked++ }})
	if err != nil || asked < 3 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	asked = 0
	if err := g.Start().Mask(make([]uint32, g.Words())); asked != 0 {
		t.Errorf("a step asked %d times, %v", asked, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = v.Compile(ctx, &b.G, grammar.Limits{Yield: func() { asked = 0; cancel(nil) }})
	if !errors.Is(err, context.Canceled) || asked != 0 {
		t.Errorf("got %v", err)
	}
}
