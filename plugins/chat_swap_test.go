package plugins

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestChatHotSwap: while one goroutine puts one version of a template and of a parser after the other in place,
// conversations are rendered and parsed: none fails, and none meets two versions. Both change in one reload.
func TestChatHotSwap(t *testing.T) {
	const reloads, workers = 20, 4
	text := [2]string{"old", "new"}
	var wasm [2][2][]byte
	for i, x := range text {
		wasm[i] = [2][]byte{renderer(x).Wasm(), parser(x).Wasm()}
	}
	specs := []Spec{spec(t, "t", wasm[0][0]), spec(t, "p", wasm[0][1])}
	s := open(t, Options{Specs: specs})
	var done atomic.Bool
	var served, swapper sync.WaitGroup
	swapper.Go(func() {
		defer done.Store(true)
		for i := range reloads {
			for k, sp := range specs {
				write(t, sp.Source, wasm[(i+1)%2][k])
			}
			if r, err := s.Reload(t.Context(), specs); err != nil || len(r.Loaded) != 2 {
				t.Errorf("reload %d: %+v, %v", i, r, err)
				return
			}
		}
	})
	var seen [2]atomic.Int64
	var requests atomic.Int64
	for range workers {
		served.Go(func() {
			for !done.Load() {
				requests.Add(1)
				got, said, err := converse(s, chatDefaults)
				if err != nil || got != said {
					t.Errorf("rendered %q, parsed %q, %v", got, said, err)
					return
				}
				seen[map[string]int{"old": 0, "new": 1}[got]].Add(1)
			}
		})
	}
	swapper.Wait()
	served.Wait()
	st, _ := s.Get("t")
	t.Logf("%d requests of one version, %d of the other, %d versions", seen[0].Load(), seen[1].Load(), st.Stats.Loads)
	if seen[0].Load() == 0 || seen[1].Load() == 0 || int64(st.Stats.Calls) != requests.Load() ||
		st.Stats.Loads != reloads+1 {
		t.Errorf("%d requests of one version, %d of the other, %d calls counted", seen[0].Load(), seen[1].Load(),
			st.Stats.Calls)
	}
	for _, name := range []string{"t", "p"} {
		if v := s.names[name].current; v.refs.Load() != 1 || len(v.totals.live) != 1 {
			t.Errorf("%s: %d references, %d live versions", name, v.refs.Load(), len(v.totals.live))
		}
	}
}

// TestChatSwapFreesTheOld: the version that was replaced lives until its last parser is closed, and no longer.
func TestChatSwapFreesTheOld(t *testing.T) {
	sp := spec(t, "p", parser("old").Wasm())
	s := open(t, Options{Specs: []Spec{sp}})
	old := s.names["p"].current
	b := bindChat(t, s, ChatPlugins{Tools: "p"})
	write(t, sp.Source, parser("new").Wasm())
	reload(t, s, []Spec{sp}, []string{"p"}, nil, nil, nil)
	p, err := b.Parser(ctx, []byte(parseRequest), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if events, err := p.Feed("x", false); err != nil || len(events) != 1 || events[0].Text != "old" {
		t.Errorf("%v, %v", events, err)
	}
	select {
	case <-old.guest.Drained():
		t.Error("freed before the parser is closed")
	default:
	}
	p.Close()
	<-old.guest.Drained()
}

// TestChatFaultsLeakNothing: thousands of renders and parsers that fail in every way leave as many instances,
// goroutines and memory maps as there were after the first hundred.
func TestChatFaultsLeakNothing(t *testing.T) {
	tSpec, pSpec := spec(t, "t", renderer("hello").Wasm()), spec(t, "p", parser("hi").Wasm())
	tSpec.Limits.FuelPerRequest, pSpec.Limits.FuelPerRequest = 100_000, 100_000
	s := open(t, Options{Specs: []Spec{tSpec, pSpec}})
	run := func(n int) {
		for i := range n {
			for _, params := range []string{doTrap, doSpin, doRogue, doRefuse} {
				if _, _, err := converse(s, chatDefaults, Call{Name: []string{"t", "p"}[i%2],
					Params: []byte(params)}); err == nil {
					t.Fatal("served ", params)
				}
			}
		}
	}
	run(25)
	settle(t, s, 4)
	before := holding(t)
	run(500)
	settle(t, s, 4)
	after := holding(t)
	for range 10_000 {
		if after.goroutines <= before.goroutines {
			break
		}
		runtime.Gosched()
		after.goroutines = runtime.NumGoroutine()
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines || after.maps > before.maps+64 {
		t.Errorf("held %+v before and %+v after", before, after)
	}
	for _, e := range s.order {
		if st := e.status(); st.Stats.InstancesOut != 0 || e.current.refs.Load() != 1 {
			t.Errorf("%s: %d references, %+v", st.Name, e.current.refs.Load(), st.Stats)
		}
	}
}

// BenchmarkChat is what a request pays for its conversation's plugins: bind, render, begin a parser, a piece, finish,
// close; and for a piece alone.
func BenchmarkChat(b *testing.B) {
	s := chatSet(b, Options{})
	b.Run("request", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := converse(s, chatDefaults); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("feed", func(b *testing.B) {
		bound := bindChat(b, s, chatDefaults)
		defer bound.Close()
		p, err := bound.Parser(ctx, []byte(parseRequest), 1)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Feed(" hello", false); err != nil {
				b.Fatal(err)
			}
		}
	})
}
