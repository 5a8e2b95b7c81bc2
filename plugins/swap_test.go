package plugins

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

// TestHotSwap: while one goroutine puts one version after the other in place, a thousand requests of two sequences and
// three steps each are served: none fails, and none meets two versions. Both plugins of a request change in one reload,
// so it must see the same age of both.
func TestHotSwap(t *testing.T) {
	const requests, workers = 1000, 8
	versions := [2][]byte{bias(1).Wasm(), bias(2).Wasm()}
	specs := []Spec{spec(t, "a", versions[0]), spec(t, "b", versions[0])}
	s := open(t, Options{Specs: specs})
	var seen [3]atomic.Int64
	var done atomic.Bool
	var served, swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 1; !done.Load(); i++ {
			for _, sp := range specs {
				write(t, sp.Source, versions[i%2])
			}
			if r, err := s.Reload(t.Context(), specs); err != nil || len(r.Loaded) != 2 {
				t.Errorf("reload %d: %+v, %v", i, r, err)
				return
			}
		}
	})
	next := atomic.Int64{}
	for range workers {
		served.Go(func() {
			for next.Add(1) <= requests {
				v, err := swapRequest(s)
				if err != nil {
					t.Error(err)
					return
				}
				seen[v].Add(1)
			}
		})
	}
	served.Wait()
	done.Store(true)
	swapper.Wait()
	st, _ := s.Get("a")
	t.Logf("%d requests of one version, %d of the other, %d versions", seen[1].Load(), seen[2].Load(), st.Stats.Loads)
	if seen[1].Load()+seen[2].Load() != requests || seen[1].Load() == 0 || seen[2].Load() == 0 {
		t.Errorf("versions seen: %d and %d of %d", seen[1].Load(), seen[2].Load(), requests)
	}
	// one begin, its copy, three steps each
	if want := uint64(requests * (1 + 2*3)); st.Stats.Calls != want || st.Stats.Faults["trap"] != 0 {
		t.Errorf("%d calls counted over all versions, want %d: %+v", st.Stats.Calls, want, st.Stats)
	}
	if s.names["a"].current.refs.Load() != 1 || len(s.names["a"].totals.live) != 1 {
		t.Errorf("%d references, %d live versions", s.names["a"].current.refs.Load(), len(s.names["a"].totals.live))
	}
}

// swapRequest runs a request and gives the version that all of its steps met.
func swapRequest(s *Set) (version int, err error) {
	b, err := s.Bind(ctx, []Call{{Name: "a"}, {Name: "b", Params: []byte(`{"x":0}`)}})
	if err != nil {
		return 0, err
	}
	defer b.Close()
	if err := b.Begin(ctx, prompt, 4, []uint64{1, 2}); err != nil {
		return 0, err
	}
	for i := range 2 {
		seq := b.Sequence(i)
		defer b.Release(i)
		for step := range 3 {
			for _, p := range seq.Processors {
				x := row()
				if err := p.RunAhead(prompt, make([]uint32, step)); err != nil {
					return 0, err
				}
				if _, err := p.Run(prompt, make([]uint32, step), x); err != nil {
					return 0, err
				}
				if version == 0 {
					version = int(x[5])
				}
				if int(x[5]) != version {
					return 0, fmt.Errorf("one request met versions %d and %v", version, x[5])
				}
			}
		}
	}
	return version, nil
}

// TestSwapFreesTheOld: the version that was replaced lives until its last request is released, and no longer.
func TestSwapFreesTheOld(t *testing.T) {
	a := spec(t, "a", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{a}})
	old := s.names["a"].current
	b := bind(t, s, 1, Call{Name: "a"})
	bound, err := s.Bind(t.Context(), []Call{{Name: "a"}}) // not begun yet
	if err != nil {
		t.Fatal(err)
	}
	write(t, a.Source, bias(2).Wasm())
	reload(t, s, []Spec{a}, []string{"a"}, nil, nil, nil)
	seq := b.Sequence(0)
	x := row()
	if _, err := seq.Processors[0].Run(prompt, nil, x); err != nil || x[5] != 1 {
		t.Errorf("the old request: %v, %v", x[5], err)
	}
	before, _ := s.Get("a")
	b.Release(0)
	b.Close()
	if err := bound.Begin(t.Context(), prompt, 0, []uint64{3}); err != nil {
		t.Errorf("a request that was bound before the swap: %v", err)
	}
	select {
	case <-old.guest.Drained():
		t.Error("freed before the last request")
	default:
	}
	bound.Close()
	<-old.guest.Drained()
	after, _ := s.Get("a")
	if after.Stats.Calls < before.Stats.Calls || after.Stats.Fuel < before.Stats.Fuel ||
		after.Stats.Resets != before.Stats.Resets+2 {
		t.Errorf("counts went from %+v to %+v", before.Stats, after.Stats)
	}
}

// TestConcurrentUse: everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	wasm := guesttest.SDK(t, "banned-and-boost")["c"]
	a, b := spec(t, "a", wasm), spec(t, "b", wasm)
	b.OnError, b.Apply = OnErrorSkip, ApplyAlways
	s := open(t, Options{Specs: []Spec{a}, Folder: t.TempDir(), Breaker: Breaker{Faults: 1}})
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 20 {
				name := fmt.Sprintf("up-%d", i%3)
				switch (worker + i) % 4 {
				case 0:
					_, _ = s.Put(ctx, name, faulty(), Upload{OnError: OnErrorSkip})
				case 1:
					_, _ = once(s, Call{Name: "a", Params: []byte(`{"ban":[5]}`)},
						Call{Name: name, Params: []byte(doTrap)})
				case 2:
					_, _ = s.Reload(ctx, []Spec{a, b}[:1+i%2])
				case 3:
					_ = s.Delete(name)
				}
				for _, st := range s.List() {
					_, _ = s.Get(st.Name)
				}
			}
		})
	}
	wait.Wait()
	if x, err := once(s, Call{Name: "a", Params: []byte(`{"boost":{"#5":2}}`)}); err != nil || x[5] != 2 {
		t.Errorf("logit %v, %v", x, err)
	}
}
