package engine

import (
	"context"
	"errors"
	"maps"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// stopper ends its sequence at the given output, and forces a token before that.
type stopper struct{ at, force int }

func (p stopper) Process(h sample.History, s *sample.Step) error {
	s.Force = int64(p.force)
	s.Stop = len(h.Output) == p.at
	return nil
}

func TestProcessorStops(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		r := endless(8)
		r.Params.IgnoreEOS = ignore
		r.Plugins = func(int) sample.Plugins {
			return sample.Plugins{Processors: []sample.Processor{stopper{at: 3, force: 5}}}
		}
		events, err := readAll(submit(t, start(t, newFake(64, 16, 256), Config{}), context.Background(), r))
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1]
		if len(events) != 4 || last.Finish == nil || last.Finish.Reason != llm.FinishEOS ||
			last.Finish.Generated != 4 || !last.Special {
			t.Errorf("ignore_eos %v: %d events, the last %+v with finish %+v", ignore, len(events), last, last.Finish)
		}
		for _, ev := range events[:3] {
			if ev.Token != 5 {
				t.Errorf("token %d, want the forced 5", ev.Token)
			}
		}
	}
}

// TestPluginsAreClosedOnce ends sequences in every way there is.
func TestPluginsAreClosedOnce(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *Engine, r Request){
		"runs to its end": func(t *testing.T, e *Engine, r Request) {
			s := submit(t, e, context.Background(), r)
			for e.step() {
			}
			s.Close()
		},
		"closed by the reader": func(t *testing.T, e *Engine, r Request) {
			s := submit(t, e, context.Background(), r)
			e.step()
			s.Close()
			e.step()
		},
		"refused": func(t *testing.T, e *Engine, r Request) {
			r.Params.Temperature = -1
			if _, err := e.Submit(t.Context(), r); err == nil {
				t.Error("accepted")
			}
		},
		"panic while it is made": func(t *testing.T, e *Engine, r Request) {
			ask := r.Plugins
			r.Plugins = func(i int) sample.Plugins {
				if i == 1 {
					panic("no plugins today")
				}
				return ask(i)
			}
			defer func() { _ = recover() }()
			_, _ = e.Submit(t.Context(), r)
		},
		"engine closed meanwhile": func(t *testing.T, e *Engine, r Request) {
			r.Plugins = closing(e, r.Plugins)
			if _, err := e.Submit(t.Context(), r); !errors.Is(err, llm.ErrClosed) {
				t.Errorf("got %v", err)
			}
		},
		"engine fails": func(t *testing.T, e *Engine, r Request) {
			submit(t, e, context.Background(), r)
			e.step()
			e.failAll(llm.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := build(newFake(64, 16, 256), fakeCodec{}, Config{Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			opened, closed := map[int]int{}, map[int]int{}
			r := endless(8)
			r.N = 2
			r.Plugins = func(i int) sample.Plugins {
				opened[i]++
				return sample.Plugins{Close: func() { closed[i]++ }}
			}
			end(t, e, r)
			if !maps.Equal(opened, closed) || opened[0] > 1 || opened[1] > 1 {
				t.Errorf("opened %v, closed %v", opened, closed)
			}
		})
	}
}

// closing shuts the engine while it asks for the plugins.
func closing(e *Engine, plugins func(int) sample.Plugins) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		e.closeWith(llm.ErrClosed)
		return plugins(i)
	}
}

// farEnd is a codec one of whose end tokens has no logit: tokenizers can have
// more tokens than the model's rows.
type farEnd struct{ fakeCodec }

func (farEnd) EOS() []llm.Token { return []llm.Token{1 << 20, 3} }

func TestStopWithoutALogit(t *testing.T) {
	e, err := build(newFake(64, 16, 256), farEnd{}, Config{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	r := endless(8)
	r.Plugins = func(int) sample.Plugins {
		return sample.Plugins{Processors: []sample.Processor{stopper{at: 0, force: -1}}}
	}
	st := submit(t, e, context.Background(), r)
	for e.step() {
	}
	events, err := readAll(st)
	if err != nil || len(events) != 1 || events[0].Token != 3 {
		t.Errorf("%+v, %v", events, err)
	}
}
