package plugins

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir/irtest"
)

// slowText is a text of 150 tokens whose next mask takes many milliseconds: sums of ones, which can be read in many
// ways.
func slowText(t *testing.T, s *Set) *Constraint {
	t.Helper()
	var b irtest.Builder
	sum := b.Declare("sum")
	b.Define(sum, b.Choice(b.Text("1"), b.Seq(b.Rule(sum), b.Rule(sum)), b.Seq(b.Rule(sum), b.Text("1"), b.Rule(sum))))
	g, err := grammar.NewVocab(digits{}, 0).Compile(ctx, &b.G, grammar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &Constraint{state: g.Start(), counts: &s.grammars.masks, turns: s.turns, quick: quickMask, ctx: ctx,
		spent: &maskTime{}, account: s.account, later: slices.Repeat([]uint32{1}, 150)}
}

// TestSlowMasksPause: a mask that takes long pauses while others wait for tokens, and only then; without its turn, and
// until its request ends.
func TestSlowMasksPause(t *testing.T) {
	var busy atomic.Bool
	var asked atomic.Int32
	s := open(t, Options{Governor: NewGovernor(func() bool { asked.Add(1); return busy.Load() })})
	bits := make([]uint32, 1)
	if _, err := slowText(t, s).Mask(bits); err != nil || asked.Load() == 0 {
		t.Fatalf("it asked %d times whether others wait, %v", asked.Load(), err)
	}
	busy.Store(true)
	c := slowText(t, s)
	began := time.Now()
	_, err := c.Mask(bits)
	took, ran := time.Since(began), time.Duration(c.spent.spent.Load())
	if err != nil || ran > took*9/10 {
		t.Errorf("it had a processor for %v of %v, %v", ran, took, err)
	}
	s.account = hostAccount(s.o.Governor)
	s.account.Spend(time.Hour)
	c = slowText(t, s)
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := c.Mask(bits); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}
