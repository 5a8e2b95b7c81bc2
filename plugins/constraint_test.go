package plugins

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSteppingGuest: a guest that computes masks has an instance for each text, and is asked for each mask once.
func TestSteppingGuest(t *testing.T) {
	s := grammarSet(t, Options{})
	g := compiled(t, s, "s", "")
	c := constraint(t, g)
	if c.Native() {
		t.Error("the host runs it")
	}
	want := []uint32{'a', 'b', 's', 't', end}
	if got := allowed(t, c); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	accept(t, c, 'a', 'b')
	counted, _ := s.Get("s")
	twin, err := c.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if st, _ := s.Get("s"); st.Stats.Calls != counted.Stats.Calls {
		t.Errorf("the guest was called %d times for a clone", st.Stats.Calls-counted.Stats.Calls)
	}
	if got := allowed(t, twin); !reflect.DeepEqual(got, want) {
		t.Errorf("the clone: got %v", got)
	}
	accept(t, twin, 'a')
	if got, other := c.stepper, twin.stepper; got == other {
		t.Error("a clone shares the guest")
	}
	if err := c.Rollback(1); err != nil {
		t.Fatal(err)
	}
	g.Close()
	calls := func() uint64 {
		st, _ := s.Get("s")
		return st.Stats.Calls
	}
	before := calls()
	allowed(t, c)
	asked := calls() - before // forced, key, mask
	if err := c.Rollback(0); err != nil {
		t.Fatal(err)
	}
	second := compiled(t, s, "s", "")
	again := constraint(t, second)
	second.Close()
	accept(t, again, 'b')
	before = calls()
	allowed(t, again)
	if got := calls() - before; asked != 3 || got != 2 {
		t.Errorf("asked %d times for a mask, %d for the same one in another text", asked, got)
	}
	c.Close()
	twin.Close()
	again.Close()
	if st, _ := s.Get("s"); st.Stats.InstancesOut != 0 {
		t.Errorf("%d instances are out", st.Stats.InstancesOut)
	}
	again.grammar = nil
	if err := c.Rollback(7); err == nil {
		t.Error("more was rolled back than there is")
	}
}

// TestSteppingFaults: a guest's fault ends its text, which says so from then on, and is counted, once for a request.
func TestSteppingFaults(t *testing.T) {
	s := grammarSet(t, Options{Breaker: Breaker{Faults: 2, Pause: time.Hour}})
	fails := func(g *Grammar) {
		t.Helper()
		c := constraint(t, g)
		err := c.Accept('t')
		if !errors.Is(err, ErrFault) || !strings.HasPrefix(err.Error(), "plugin s: tgi_grammar_accept: trap") {
			t.Errorf("got %v", err)
		}
		if _, again := c.Mask(make([]uint32, 9)); again != err {
			t.Errorf("asked again: %v", again)
		}
		if _, again := c.Clone(); again != err {
			t.Errorf("cloned: %v", again)
		}
		c.Close()
	}
	one, two := compiled(t, s, "s", ""), compiled(t, s, "s", "")
	defer one.Close()
	defer two.Close()
	fails(one)
	fails(one)
	fails(two) // is let in
	if _, err := two.Sequence(ctx, 1); !errors.Is(err, ErrOff) {
		t.Errorf("after two faulty requests: %v", err)
	}
}

func TestSteppingCancelled(t *testing.T) {
	s := grammarSet(t, Options{})
	g := compiled(t, s, "s", "")
	defer g.Close()
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(ctx)
	c, err := g.Sequence(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel(why)
	if err := c.Accept('s'); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if st, _ := s.Get("s"); st.Stats.Faults["trap"] != 0 {
		t.Errorf("counted as a fault: %+v", st.Stats)
	}
}

// TestSteppingKeepsItsVersion: texts go on with the version that they began with, which is freed with the last of them.
func TestSteppingKeepsItsVersion(t *testing.T) {
	sp := spec(t, "s", stepper().Wasm())
	s := open(t, Options{Specs: []Spec{sp}})
	g := compiled(t, s, "s", "")
	c := constraint(t, g)
	old := s.names["s"].current
	newer := stepper()
	newer.Pages = 20
	write(t, sp.Source, newer.Wasm())
	reload(t, s, []Spec{sp}, []string{"s"}, nil, nil, nil)
	g.Close()
	accept(t, c, 'a')
	select {
	case <-old.guest.Drained():
		t.Fatal("freed while a text goes on")
	default:
	}
	c.Close()
	<-old.guest.Drained()
}
