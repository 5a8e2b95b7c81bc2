package plugins

import (
	"context"
	"errors"
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
	many := turnProcessors() + 3
	for range many {
		endless.Go(func() {
			b := bindChat(t, s, chatDefaults, Call{Name: "slow", Params: []byte(doSpin)})
			defer b.Close()
			if _, err := b.Render(c, []byte(renderRequest)); err == nil {
				t.Error("an endless rendering ended")
			}
		})
	}
	awaitQueue(t, s.turns, 3)
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
	awaitQueue(t, turns, turnProcessors())
}

// awaitQueue waits until so many calls wait for a processor.
func awaitQueue(t *testing.T, turns *Turns, want int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		turns.mu.Lock()
		waiting := len(turns.queue)
		turns.mu.Unlock()
		if waiting == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls wait for a processor, want %d", waiting, want)
		}
	}
}

// TestBeginsTakeTurns: whatever a guest does for a request before the token loop waits for a processor; then it does
// not.
func TestBeginsTakeTurns(t *testing.T) {
	s := grammarSet(t, Options{Specs: []Spec{spec(t, "t", renderer("hello").Wasm()), spec(t, "p", parser("hi").Wasm()),
		spec(t, "l", bias(1).Wasm())}})
	params := []byte(`{"b":1}`)
	begun := []func(){}
	defer func() {
		for _, end := range begun {
			end()
		}
	}()
	chat := bindChat(t, s, chatDefaults)
	defer chat.Close()
	steps := compiled(t, s, "s", "")
	defer steps.Close()
	calls := map[string]func(context.Context) (use, end func(), err error){
		"bind a conversation": func(c context.Context) (use, end func(), err error) {
			b, _, err := s.BindChat(c, []Call{{Name: "t", Params: params}}, chatDefaults)
			if err != nil {
				return nil, nil, err
			}
			return func() {}, b.Close, nil
		},
		"bind": func(c context.Context) (use, end func(), err error) {
			b, err := s.Bind(c, []Call{{Name: "l", Params: params}})
			if err != nil {
				return nil, nil, err
			}
			return func() {}, b.Close, nil
		},
		"begin": func(c context.Context) (use, end func(), err error) {
			b, err := s.Bind(ctx, []Call{{Name: "l"}})
			if err != nil {
				return nil, nil, err
			}
			if err := b.Begin(c, prompt, 16, []uint64{1, 2}); err != nil {
				b.Close()
				return nil, nil, err
			}
			return func() {
				if _, err := b.Sequence(0).Processors[0].Run(prompt, nil, row()); err != nil {
					t.Error(err)
				}
				b.Release(0)
			}, b.Close, nil
		},
		"parse": func(c context.Context) (use, end func(), err error) {
			p, err := chat.Parser(c, []byte(parseRequest), 1)
			if err != nil {
				return nil, nil, err
			}
			return func() {
				if _, err := p.Feed("x", false); err != nil {
					t.Error(err)
				}
			}, p.Close, nil
		},
		"follow a grammar": func(c context.Context) (use, end func(), err error) {
			k, err := steps.Sequence(c, 1)
			if err != nil {
				return nil, nil, err
			}
			return func() { allowed(t, k) }, k.Close, nil
		},
	}
	var used []func()
	for name, call := range calls {
		use, end, err := call(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		begun, used = append(begun, end), append(used, use)
	}
	for range turnProcessors() {
		turn := s.turns.begin("other")
		defer turn.end()
		if !turn.take(ctx) {
			t.Fatal("no processor is free")
		}
	}
	for _, use := range used {
		use()
	}
	for name, call := range calls {
		c, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, end, err := call(c)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s without a processor: %v", name, err)
		}
		if err == nil {
			end()
		}
	}
	if n := len(s.turns.queue); n > 0 || s.turns.clients[""] != nil {
		t.Errorf("%d are left in the queue, and the client is %+v", n, s.turns.clients[""])
	}
}
