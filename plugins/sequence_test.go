package plugins

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

// TestSequences: two plugins in a chain edit the rows of two sequences, each from its own state.
func TestSequences(t *testing.T) {
	for lang, wasm := range guesttest.SDK(t, "every-mode") {
		t.Run(lang, func(t *testing.T) {
			s := open(t, Options{Specs: []Spec{spec(t, "every", wasm), spec(t, "a", bias(2).Wasm())}})
			b := bind(t, s, 2, Call{Name: "every",
				Params: []byte(`{"mode":"sparse","ids":[5,7],"bias":1,"temperature":0.5,"force_at":1,"force":[9]}`)},
				Call{Name: "a"})
			defer b.Close()
			for i := range 2 {
				seq := b.Sequence(i)
				x := row()
				first, err := seq.Processors[0].Run(prompt, nil, x)
				if err != nil || first.Temperature != 0.5 || first.Force != -1 || first.Stop {
					t.Fatalf("step 0: %+v, %v", first, err)
				}
				if _, err := seq.Processors[1].Run(prompt, nil, x); err != nil {
					t.Fatal(err)
				}
				if x[5] != 3 || x[7] != 1 || x[8] != 0 {
					t.Errorf("logits %v, want 3 1 0", []float32{x[5], x[7], x[8]})
				}
				if second, err := seq.Processors[0].Run(prompt, []uint32{5}, row()); err != nil || second.Force != 9 {
					t.Errorf("step 1: %+v, %v", second, err)
				}
				if pick, err := seq.Sampler.Choose([]uint32{5, 7}, []float32{3, 1}, []float32{-0.1, -2}); err != nil ||
					pick != 0 {
					t.Errorf("picked %d, %v", pick, err)
				}
				b.Release(i)
				b.Release(i)
			}
			if got := b.Skipped(); len(got) != 0 {
				t.Errorf("skipped %q", got)
			}
			if n := s.names["every"].current.refs.Load(); n != 2 {
				t.Errorf("%d references, want those of the set and of the request", n)
			}
			if st, _ := s.Get("every"); st.Stats.InstancesOut != 0 || st.Stats.Calls == 0 || st.Stats.Fuel == 0 ||
				st.Stats.Seconds <= 0 || st.Stats.Faults["trap"] != 0 {
				t.Errorf("stats %+v", st.Stats)
			}
		})
	}
}

// TestSequenceSeeds: the same seed gives the same random numbers, another sequence or plugin others.
func TestSequenceSeeds(t *testing.T) {
	wasm := guesttest.SDK(t, "every-mode")["c"]
	s := open(t, Options{Specs: []Spec{spec(t, "a", wasm), spec(t, "b", wasm)}})
	picks := func(name string) (out [2][]int) {
		b, err := s.Bind(t.Context(), []Call{{Name: name, Params: []byte(`{"random":true}`)}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.Begin(t.Context(), prompt, 0, []uint64{1, 2}); err != nil {
			t.Fatal(err)
		}
		ids, x := make([]uint32, 50), make([]float32, 50)
		for i := range out {
			seq := b.Sequence(i)
			for range 8 {
				pick, err := seq.Sampler.Choose(ids, x, x)
				if err != nil {
					t.Fatal(err)
				}
				out[i] = append(out[i], pick)
			}
			b.Release(i)
		}
		return out
	}
	first, again, other := picks("a"), picks("a"), picks("b")
	if !slices.Equal(first[0], again[0]) || !slices.Equal(first[1], again[1]) {
		t.Errorf("same seeds: %v and %v", first, again)
	}
	if slices.Equal(first[0], first[1]) || slices.Equal(first[0], other[0]) {
		t.Errorf("sequences %v, other plugin %v", first, other)
	}
}

// TestFaultFails: the error of a step comes again at every later one, and the row is as it was.
func TestFaultFails(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", faulty())}})
	for params, want := range map[string]string{doTrap: "a: tgi_logits_process: trap",
		doSpin: "a: tgi_logits_process: out of fuel", doRogue: "a: tgi_logits_process: "} {
		x, err := once(s, Call{Name: "a", Params: []byte(params)})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
		if !slices.Equal(x, row()) {
			t.Errorf("%s: the row was changed", params)
		}
	}
	b := bind(t, s, 1, Call{Name: "a", Params: []byte(doTrap)})
	p := b.Sequence(0).Processors[0]
	first := p.RunAhead(prompt, nil)
	_, second := p.Run(prompt, nil, row())
	if first == nil || !errors.Is(second, first) {
		t.Errorf("errors %v and %v", first, second)
	}
	if len(b.Skipped()) != 0 {
		t.Error("skipped where the request fails")
	}
	b.Release(0)
	b.Close()
	st, _ := s.Get("a")
	if f := st.Stats.Faults; f["trap"] != 2 || f["fuel"] != 1 || f["access"]+f["result"] != 1 ||
		st.Stats.Discarded != 4 {
		t.Errorf("stats %+v", st.Stats)
	}
}

// TestFaultSkips: the sequence goes on without the plugin, the others keep it, and the request tells of it once.
func TestFaultSkips(t *testing.T) {
	every := guesttest.SDK(t, "every-mode")["c"]
	skipping := spec(t, "skips", every)
	skipping.OnError = OnErrorSkip
	s := open(t, Options{Specs: []Spec{skipping, spec(t, "a", bias(2).Wasm())}})
	b := bind(t, s, 2, Call{Name: "skips", Params: []byte(`{"mode":"row","ids":[5],"trap_at":1}`)}, Call{Name: "a"})
	one, two := b.Sequence(0), b.Sequence(1)
	step := func(seq Sequence, output []uint32) float32 {
		t.Helper()
		x := row()
		for _, p := range seq.Processors {
			e, err := p.Run(prompt, output, x)
			if err != nil {
				t.Fatal(err)
			}
			if !math.IsNaN(float64(e.Temperature)) || e.Force != -1 || e.Stop {
				t.Errorf("effect %+v", e)
			}
		}
		return x[5]
	}
	got := []float32{step(one, nil), step(one, []uint32{5}), step(one, []uint32{5, 5}), step(two, nil),
		step(two, []uint32{6})}
	if want := []float32{3, 2, 2, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("logits %v, want %v", got, want)
	}
	if pick, err := one.Sampler.Choose([]uint32{1}, []float32{0}, []float32{0}); pick != NoChoice || err != nil {
		t.Errorf("the sampler of a plugin that was passed over picked %d, %v", pick, err)
	}
	skipped := b.Skipped()
	if len(skipped) != 1 || skipped[0].Plugin != "skips" || !strings.HasPrefix(skipped[0].Reason,
		"tgi_logits_process: trap") {
		t.Errorf("skipped %q", skipped)
	}
	b.Release(0)
	b.Release(1)
	b.Close()
	if st, _ := s.Get("skips"); st.Stats.Skips != 2 || st.Stats.Faults["trap"] != 2 {
		t.Errorf("stats %+v", st.Stats)
	}
}

// TestSamplerFaults: a sampler that fails fails the sequence, or makes no choice from then on.
func TestSamplerFaults(t *testing.T) {
	wasm := guesttest.Fake{Description: guesttest.Both, Code: map[string]guesttest.Code{
		"tgi_sampler_sample": guesttest.Join(guesttest.Arg(1), guesttest.Const(3), guesttest.Equal(),
			guesttest.When(guesttest.Trap()), guesttest.Const(1)),
	}}.Wasm()
	failing, skipping := spec(t, "fails", wasm), spec(t, "skips", wasm)
	skipping.OnError = OnErrorSkip
	s := open(t, Options{Specs: []Spec{failing, skipping}})
	for _, name := range []string{"fails", "skips"} {
		b := bind(t, s, 1, Call{Name: name})
		sampler := b.Sequence(0).Sampler
		var picks []int
		var errs int
		for _, n := range []int{2, 3, 2} {
			pick, err := sampler.Choose(make([]uint32, n), make([]float32, n), make([]float32, n))
			picks = append(picks, pick)
			if err != nil {
				errs++
			}
		}
		if !slices.Equal(picks, []int{1, NoChoice, NoChoice}) || errs != map[string]int{"fails": 2, "skips": 0}[name] ||
			sampler.Candidates() != 8 {
			t.Errorf("%s: picks %v, %d errors, %d candidates", name, picks, errs, sampler.Candidates())
		}
		b.Release(0)
		b.Close()
	}
}

// TestSequenceCancelled: a step ends with its request; with on_error skip too, and it is no fault of the plugin.
func TestSequenceCancelled(t *testing.T) {
	sp := spec(t, "a", faulty())
	sp.OnError, sp.Limits.FuelPerStep = OnErrorSkip, 1<<46
	s := open(t, Options{Specs: []Spec{sp}, Breaker: Breaker{Faults: 1}})
	b, err := s.Bind(t.Context(), []Call{{Name: "a", Params: []byte(doSpin)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Begin(ctx, prompt, 0, []uint64{1}); err != nil {
		t.Fatal(err)
	}
	p := b.Sequence(0).Processors[0]
	cancel()
	if _, err := p.Run(prompt, nil, row()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.Release(0)
	b.Close()
	if st, _ := s.Get("a"); st.State != StateActive || len(b.Skipped()) != 0 || st.Stats.Skips != 0 ||
		st.Stats.Cancelled != 1 {
		t.Errorf("skipped %q, %+v", b.Skipped(), st)
	}
}

// TestCloseBeforeRelease: a request may be closed while the engine still runs its sequences.
func TestCloseBeforeRelease(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", bias(1).Wasm())}})
	b := bind(t, s, 3, Call{Name: "a"})
	seq := b.Sequence(1)
	b.Close()
	if st, _ := s.Get("a"); st.Stats.InstancesOut != 1 {
		t.Errorf("%d instances out, want that of the running sequence", st.Stats.InstancesOut)
	}
	x := row()
	if _, err := seq.Processors[0].Run(prompt, nil, x); err != nil || x[5] != 1 {
		t.Errorf("logit %v, %v", x[5], err)
	}
	b.Release(1)
	if st, _ := s.Get("a"); st.Stats.InstancesOut != 0 || st.Stats.Resets != 3 {
		t.Errorf("%+v", st.Stats)
	}
	if n := s.names["a"].current.refs.Load(); n != 1 {
		t.Errorf("%d references, want the set's", n)
	}
}

// TestReleaseLater: closing the set awaits the sequences that are released in the background.
func TestReleaseLater(t *testing.T) {
	const sequences = 64
	s := open(t, Options{Specs: []Spec{spec(t, "a", bias(1).Wasm())}, MaxInstances: 2 * sequences})
	b := bind(t, s, sequences, Call{Name: "a"})
	for i := range sequences {
		b.Sequence(i).ReleaseLater()
	}
	b.Close()
	s.Close()
	if n := b.open.Load(); n != 0 {
		t.Errorf("%d sequences are open after the set was closed", n)
	}
}
