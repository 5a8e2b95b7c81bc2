package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir/irtest"
)

// TestCompileYields checks that a long compilation calls Yield and stops when it is cancelled there, and that the
// compiled grammar no longer calls it.
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
		t.Fatalf("yielded %d times, %v", asked, err)
	}
	asked = 0
	if err := g.Start().Mask(make([]uint32, g.Words())); asked != 0 {
		t.Errorf("a step yielded %d times, %v", asked, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = v.Compile(ctx, &b.G, grammar.Limits{Yield: func() { asked = 0; cancel(nil) }})
	if !errors.Is(err, context.Canceled) || asked != 0 {
		t.Errorf("got %v", err)
	}
}

// TestEffort checks that a call with a time limit gives up soon after it, that its later results equal those without a
// limit, and that a call without one yields and stops when cancelled.
func TestEffort(t *testing.T) {
	source := regexGrammar(`(.{3}|.{5}|.{7}){200}`)
	v := largeVocab()
	g := compile(t, v, source, grammar.Limits{})
	a := longest()("a")[0]
	s, mask, gaveUp, asked := g.Start(), make([]uint32, g.Words()), 0, 0
	hurried := s.Clone()
	ctx, cancel := context.WithCancelCause(t.Context())
	for i := range 14 {
		try := func(call func(grammar.Effort) error) {
			err := call(grammar.Effort{Time: time.Microsecond})
			if errors.Is(err, grammar.ErrLimit) {
				gaveUp++
				err = call(grammar.Effort{Yield: func() { asked++ }})
			}
			if err != nil {
				t.Fatalf("token %d: %v", i, err)
			}
		}
		try(func(e grammar.Effort) error { return hurried.MaskWith(ctx, e, mask) })
		if !slices.Equal(mask, maskOf(t, s)) {
			t.Fatalf("token %d: the mask differs", i)
		}
		try(func(e grammar.Effort) error { return hurried.AcceptWith(ctx, e, a) })
		if err := s.Accept(a); err != nil {
			t.Fatal(err)
		}
	}
	if gaveUp == 0 || asked == 0 {
		t.Errorf("gave up %d times, yielded %d times", gaveUp, asked)
	}
	again := compile(t, grammar.NewVocab(large(), 0), source, grammar.Limits{}).Start()
	cancel(nil)
	if err := again.MaskWith(ctx, grammar.Effort{}, mask); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
