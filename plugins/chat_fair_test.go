package plugins

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestRenderFair: prompts whose rendering does not end leave a turn to others, and never take all processors.
func TestRenderFair(t *testing.T) {
	slow := spec(t, "slow", renderer("xx").Wasm())
	slow.Limits = Limits{FuelPerRequest: 1 << 49, TimePerRequest: time.Hour}
	s := chatSet(t, Options{Specs: []Spec{slow}})
	c, cancel := context.WithCancel(ctx)
	var endless sync.WaitGroup
	defer endless.Wait()
	defer cancel()
	for range 6 {
		endless.Go(func() {
			b := bindChat(t, s, chatDefaults, Call{Name: "slow", Params: []byte(doSpin)})
			defer b.Close()
			if _, err := b.Render(c, []byte(renderRequest)); err == nil {
				t.Error("an endless rendering ended")
			}
		})
	}
	for st, _ := s.Get("slow"); st.Stats.InstancesOut < 6; st, _ = s.Get("slow") {
		time.Sleep(time.Millisecond)
	}
	s.turns.mu.Lock()
	waiting := len(s.turns.queue)
	s.turns.mu.Unlock()
	if waiting < max(0, 6-turnProcessors()-2) { // some may be on the way
		t.Errorf("%d of 6 renderings wait for one of %d processors", waiting, turnProcessors())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := bindChat(t, s, chatDefaults)
		defer b.Close()
		if r, err := b.Render(ctx, []byte(renderRequest)); err != nil || r.Text != "hello" {
			t.Errorf("%+v, %v", r, err)
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("a short rendering waits for endless ones")
		cancel()
		<-done
	}
}

// TestTurnsShared: sets that have turns together, as those of several models do, run no more calls than one.
func TestTurnsShared(t *testing.T) {
	turns := NewTurns()
	c, cancel := context.WithCancel(ctx)
	var endless sync.WaitGroup
	defer endless.Wait()
	defer cancel()
	sets := make([]*Set, 2)
	for i := range sets {
		slow := spec(t, "slow", renderer("xx").Wasm())
		slow.Limits = Limits{FuelPerRequest: 1 << 49, TimePerRequest: time.Hour}
		sets[i] = chatSet(t, Options{Specs: []Spec{slow}, Turns: turns})
		for range turnProcessors() {
			endless.Go(func() {
				b := bindChat(t, sets[i], chatDefaults, Call{Name: "slow", Params: []byte(doSpin)})
				defer b.Close()
				if _, err := b.Render(c, []byte(renderRequest)); err == nil {
					t.Error("an endless rendering ended")
				}
			})
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		turns.mu.Lock()
		waiting := len(turns.queue)
		turns.mu.Unlock()
		if waiting == turnProcessors() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d renderings wait, want as many as there are processors", waiting)
		}
	}
}
