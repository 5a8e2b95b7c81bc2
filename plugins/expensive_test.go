package plugins

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/plugins/internal/guest/guesttest"
)

// dearGrammar is a grammar some of whose masks take long.
func dearGrammar(t *testing.T) (*Set, *Grammar) {
	t.Helper()
	var b irtest.Builder
	x := b.Bytes("aa")
	for range 4 {
		x = b.Repeat(b.Concat(x, b.Repeat(b.Bytes("bb"), 0, 1)), 1, 100)
	}
	b.G.Start = b.Declare("start")
	b.Define(b.G.Start, b.Term(x))
	s := grammarSet(t, Options{Specs: []Spec{spec(t, "counts", compiles(&b.G).Wasm())}})
	g, err := s.Compile(ctx, GrammarCall{Plugin: "counts", Source: []byte(theSource)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return s, g
}

// bitsOf is room for a mask of the tests' vocabulary.
func bitsOf() []uint32 { return make([]uint32, (guesttest.NewWords().Size()+31)/32) }

// untilDear has a text go on until a mask is not to be had at once.
func untilDear(t *testing.T, c *Constraint) {
	t.Helper()
	for range 500 {
		c.quick = time.Microsecond
		_, done, err := c.TryMask(bitsOf())
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			return
		}
		if err := c.AcceptLater('a'); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("all masks are cheap")
}

// TestExpensiveMasks: a mask that takes long is not made where others wait for it, and is the same when it is made.
func TestExpensiveMasks(t *testing.T) {
	s, g := dearGrammar(t)
	c, plain := constraint(t, g), constraint(t, g)
	dear := 0
	for i := range 14 {
		got, want := bitsOf(), bitsOf()
		c.quick = time.Microsecond
		twin, err := c.Clone()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, done, err := c.TryMask(got)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); !done && took > time.Second {
			t.Errorf("token %d: given up after %v", i, took)
		}
		if !done {
			dear++
			if _, err := c.Mask(got); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := plain.Mask(want); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("token %d: another mask", i)
		}
		if _, err := twin.Mask(want); err != nil || !slices.Equal(got, want) {
			t.Fatalf("token %d: another mask of the clone, %v", i, err)
		}
		if err := c.AcceptLater('a'); err != nil {
			t.Fatal(err)
		}
		if err := plain.Accept('a'); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.GrammarStats(); dear == 0 || st.Asked != 3*14 {
		t.Errorf("%d of 14 masks were dear, %d counted", dear, st.Asked)
	}
	if err := c.AcceptLater('z'); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.TryMask(bitsOf()); err == nil {
		t.Error("a token that may not come was accepted")
	}
}

// TestRollbackOfLater: tokens that the state has not been told yet are taken back as the others are.
func TestRollbackOfLater(t *testing.T) {
	_, g := dearGrammar(t)
	c, plain := constraint(t, g), constraint(t, g)
	accept(t, plain, 'a')
	for range 3 {
		if err := c.AcceptLater('a'); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Rollback(2); err != nil {
		t.Fatal(err)
	}
	if got, want := allowed(t, c), allowed(t, plain); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestExpensiveMaskWaitsForItsTurn: masks that take long leave a processor to the steps, as compilations do, and a
// request that ends does not wait for one.
func TestExpensiveMaskWaitsForItsTurn(t *testing.T) {
	s, g := dearGrammar(t)
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := g.Sequence(request, 1)
	if err != nil {
		t.Fatal(err)
	}
	untilDear(t, c)
	var busy []*turn
	for range turnProcessors() {
		b, err := s.turns.register(ctx, "other")
		if err != nil || !b.take(ctx) {
			t.Fatal(err)
		}
		busy = append(busy, b)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Mask(bitsOf())
		ended <- err
	}()
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
		s.turns.mu.Lock()
		waiting = len(s.turns.queue)
		s.turns.mu.Unlock()
	}
	select {
	case err := <-ended:
		t.Fatalf("it took a processor that was not free: %v", err)
	default:
	}
	gone := errors.New("gone")
	cancel(gone)
	if err := <-ended; err != gone {
		t.Errorf("got %v", err)
	}
	if _, err := c.Mask(bitsOf()); err != gone {
		t.Errorf("asked again: got %v", err)
	}
	for _, b := range busy {
		b.end()
	}
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if len(s.turns.queue) != 0 || s.turns.free != turnProcessors() {
		t.Errorf("%d wait, %d processors are free", len(s.turns.queue), s.turns.free)
	}
}

// TestAllowanceIsShared: what one call takes, the next ones lack; no bound stays none.
func TestAllowanceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, free := allow(grammar.Effort{Time: quickMask}), allow(grammar.Effort{})
		for _, want := range []time.Duration{quickMask, quickMask / 2, 1, 1} {
			if got := a.left().Time; got != want {
				t.Errorf("%v are left, want %v", got, want)
			}
			time.Sleep(quickMask / 2)
		}
		if got := free.left().Time; got != 0 {
			t.Errorf("a bound of %v", got)
		}
	})
}
