package plugins

import (
	"math"
	"testing"
	"time"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// processing is a plugin of which the processor alone is used.
func processing(t testing.TB, wasm []byte) Spec {
	sp := spec(t, "e", wasm)
	sp.Kind = abi.KindLogits
	return sp
}

// TestFork: a fork goes on where the sequence is, forced tokens included, and neither sees what becomes of the other.
func TestFork(t *testing.T) {
	for lang, wasm := range guesttest.SDK(t, "every-mode") {
		t.Run(lang, func(t *testing.T) {
			s := open(t, Options{Specs: []Spec{processing(t, wasm)}})
			b := bind(t, s, 1, Call{Name: "e",
				Params: []byte(`{"mode":"deny","ids":[5],"force_at":1,"force":[9,10,11]}`)})
			one := b.Sequence(0)
			process := func(seq Sequence, output ...uint32) int64 {
				t.Helper()
				x := row()
				e, err := seq.Processors[0].Run(prompt, output, x)
				if err != nil {
					t.Fatal(err)
				}
				if denied := math.IsInf(float64(x[5]), -1); denied != (e.Force < 0) && e.Force != 9 {
					t.Errorf("after %d: token 5 denied %v with force %d", output, denied, e.Force)
				}
				return e.Force
			}
			if !one.CanFork() {
				t.Fatal("it has no sampler and hides no state")
			}
			process(one)
			early, err := one.Fork(1)
			if err != nil {
				t.Fatal(err)
			}
			if f := process(one, 3); f != 9 {
				t.Errorf("forced %d, want 9", f)
			}
			late, err := one.Fork(2)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range []struct {
				seq    Sequence
				output []uint32
				want   int64
			}{
				{one, []uint32{3, 9}, 10}, {late, []uint32{3, 8}, -1}, {one, []uint32{3, 9, 10}, 11},
				{early, []uint32{4}, 9}, {early, []uint32{4, 9}, 10}, {late, []uint32{3, 8, 9}, -1},
				{one, []uint32{3, 9, 10, 11}, -1},
			} {
				if got := process(c.seq, c.output...); got != c.want {
					t.Errorf("%d: after %d forced %d, want %d", i, c.output, got, c.want)
				}
			}
			one.Release()
			again, err := late.Fork(3)
			if err != nil {
				t.Fatal("a fork of a fork, without the first:", err)
			}
			process(again, 3, 8, 9, 9)
			b.Close()
			for _, seq := range []Sequence{early, late, again, again} {
				seq.Release()
			}
			if st, _ := s.Get("e"); st.Stats.InstancesOut != 0 {
				t.Errorf("%d instances are out", st.Stats.InstancesOut)
			}
			if n := s.names["e"].current.refs.Load(); n != 1 {
				t.Errorf("%d references, want that of the set", n)
			}
		})
	}
}

// TestForkOfSkipped: a plugin that was passed over stays so in forks, and one that failed fails them.
func TestForkOfSkipped(t *testing.T) {
	for _, on := range []OnError{OnErrorSkip, OnErrorFail} {
		sp := processing(t, guesttest.SDK(t, "every-mode")["c"])
		sp.OnError = on
		b := bind(t, open(t, Options{Specs: []Spec{sp}}), 1, Call{Name: "e", Params: []byte(`{"trap_at":0}`)})
		seq := b.Sequence(0)
		_, failed := seq.Processors[0].Run(prompt, nil, row())
		twin, err := seq.Fork(1)
		if (failed == nil) != (on == OnErrorSkip) || (err == nil) != (on == OnErrorSkip) {
			t.Errorf("%s: step %v, fork %v", on, failed, err)
		}
		if err == nil {
			if _, err := twin.Processors[0].Run(prompt, []uint32{1}, row()); err != nil {
				t.Error(err)
			}
			twin.Release()
		}
		seq.Release()
		b.Close()
	}
}

// TestNoForkOfSamplers: a sampler picks for one sequence.
func TestNoForkOfSamplers(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "e", guesttest.SDK(t, "epsilon-greedy")["c"])}})
	b := bind(t, s, 1, Call{Name: "e"})
	defer b.Close()
	seq := b.Sequence(0)
	defer seq.Release()
	if _, err := seq.Fork(1); seq.CanFork() || err == nil {
		t.Error("a sampler was forked")
	}
}

// TestBeamsCountOnce: a request with a fault in each of its sequences and beams counts once, and is faulty although
// some of them are not.
func TestBeamsCountOnce(t *testing.T) {
	const limit = 3
	s := open(t, Options{Specs: []Spec{processing(t, guesttest.SDK(t, "every-mode")["c"])},
		Breaker: Breaker{Faults: limit, Pause: time.Hour}})
	for n := range limit {
		b := bind(t, s, 2, Call{Name: "e", Params: []byte(`{"trap_at":2}`)})
		first, good := b.Sequence(0), b.Sequence(1)
		beams := []Sequence{first}
		for i, seq := range []Sequence{first, good} {
			if _, err := seq.Processors[0].Run(prompt, nil, row()); err != nil {
				t.Fatal(i, err)
			}
		}
		for seed := range uint64(7) {
			beam, err := first.Fork(seed)
			if err != nil {
				t.Fatal(err)
			}
			beams = append(beams, beam)
		}
		for i, beam := range beams {
			_, err := beam.Processors[0].Run(prompt, []uint32{1}, row())
			if err == nil {
				_, err = beam.Processors[0].Run(prompt, []uint32{1, 2}, row())
			}
			if err == nil {
				t.Errorf("beam %d did not fail", i)
			}
			beam.Release()
		}
		good.Release()
		b.Close()
		if st, _ := s.Get("e"); (st.OffClients == 1) != (n == limit-1) {
			t.Errorf("after %d requests: %s %s", n+1, st.State, st.Error)
		}
	}
}
