package generate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

type clientKey struct{}

// of returns a context of a request of client.
func of(t *testing.T, client string) context.Context {
	return context.WithValue(t.Context(), clientKey{}, client)
}

// sharing returns a service of places that clients share.
func sharing(e generate.Engine, places int) *generate.Service {
	l := generatetest.Limits()
	l.MaxConcurrent = places
	return generate.New(e, generatetest.Words{}, l, nil).WithClients(func(ctx context.Context) llm.Client {
		name, _ := ctx.Value(clientKey{}).(string)
		return llm.Client{Name: name}
	})
}

// fill starts runs of one sequence for client until one is refused.
func fill(t *testing.T, s *generate.Service, client string) (runs []*generate.Run, refused error) {
	t.Helper()
	for {
		run, err := s.Start(of(t, client), generate.Draft{Inputs: "x"})
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
	}
}

func TestClientsShare(t *testing.T) {
	s := sharing(&generatetest.Engine{}, 64)
	first, err := fill(t, s, "a")
	var full *generate.Overloaded
	if len(first) != 56 || !errors.As(err, &full) || full.Reason !=
		"this client holds 56 of 64 places (limits.max_concurrent_requests), the other 8 are kept for others" {
		t.Fatalf("alone: %d places, then %v", len(first), err)
	}
	if _, err := s.Tokenize(of(t, "a"), generate.Draft{Inputs: "x"}); !errors.As(err, &full) {
		t.Errorf("one more for /tokenize: %v", err)
	}
	second, _ := fill(t, s, "b")
	third, _ := fill(t, s, "c")
	if len(second) != 7 || len(third) != 1 {
		t.Errorf("others beside it: %d and %d places, want 7 and 1", len(second), len(third))
	}
	if _, err := fill(t, s, ""); !errors.As(err, &full) || full.Reason != "" {
		t.Errorf("all places are taken: %v", err)
	}
	// What the first gives back goes to the others until both have about as much.
	for i := range 30 {
		first[i].Close()
	}
	more, _ := fill(t, s, "b")
	again, _ := fill(t, s, "a")
	if a, b := len(first)-30+len(again), len(second)+len(more); a > 30 || b < 30 {
		t.Errorf("30 came back: a has %d, b has %d, want about as many", a, b)
	}
}

// TestEngineKnowsTheClient: it shares its steps between clients too.
func TestEngineKnowsTheClient(t *testing.T) {
	e := &generatetest.Engine{}
	s := sharing(e, 64)
	for _, name := range []string{"a", "b"} {
		run, err := s.Start(of(t, name), generate.Draft{Inputs: "x"})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
	}
	if r := e.Requests(); len(r) != 2 || r[0].Client != "a" || r[1].Client != "b" {
		t.Errorf("requests %+v", r)
	}
}

// TestShareOfFewPlaces: who has none gets one while there is one.
func TestShareOfFewPlaces(t *testing.T) {
	for places, want := range map[int]int{1: 1, 2: 1, 4: 3, 8: 7} {
		if got, _ := fill(t, sharing(&generatetest.Engine{}, places), "a"); len(got) != want {
			t.Errorf("of %d places: %d, want %d", places, len(got), want)
		}
	}
}

// TestOneRequest: one request gets half of the places, whatever it asks for, and on an idle server it does get them.
func TestOneRequest(t *testing.T) {
	for places := 1; places < 20; places++ {
		s, half := sharing(&generatetest.Engine{}, places), uint64(places+1)/2
		for name, of := range map[string]func(uint64) generate.Draft{
			"n":         func(n uint64) generate.Draft { return generate.Draft{Rules: generate.OpenAI, N: &n} },
			"num_beams": func(n uint64) generate.Draft { return generate.Draft{NumBeams: &n} },
			"best_of": func(n uint64) generate.Draft {
				n = min(n, 3) // 2 are allowed
				return generate.Draft{BestOf: &n, DoSample: true}
			},
		} {
			d, more := of(half), of(half+1)
			d.Inputs, more.Inputs = "x", "x"
			if name == "best_of" {
				d = of(min(half, 2))
				d.Inputs = "x"
			}
			run, err := s.Start(context.WithValue(t.Context(), clientKey{}, "a"), d)
			if err != nil {
				t.Errorf("%s, half of %d places: %v", name, places, err)
				continue
			}
			run.Close()
			if _, err := s.Start(t.Context(), more); !errors.Is(err, llm.ErrInvalid) {
				t.Errorf("%s, more than half of %d places: %v", name, places, err)
			}
		}
	}
	four := uint64(4)
	s, d := sharing(&generatetest.Engine{}, 16), generate.Draft{Rules: generate.OpenAI, N: &four}
	if s.Together(&d) != 2 || s.CheckTogether(&d, "prompt", 2) != nil {
		t.Errorf("2 texts of 4 are half of 16: %d, %v", s.Together(&d), s.CheckTogether(&d, "prompt", 2))
	}
	want := "`prompt` must have at most 2 entries with as many sequences each: together they may be 8, " +
		"half of max_concurrent_requests. Given: 3"
	if err := s.CheckTogether(&d, "prompt", 3); fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestPlacesBeforeTheEnd: whoever has read the last event of a stream finds a place. Another reply keeps its own until
// it is made, so that the places bound how many are.
func TestPlacesBeforeTheEnd(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := sharing(&generatetest.Engine{}, 1)
		d := generate.Draft{Inputs: "x", MaxNewTokens: ptr(uint32(2)), Stream: stream}
		run, err := s.Start(of(t, "a"), d)
		if err != nil {
			t.Fatal(err)
		}
		for last := false; !last; {
			if _, err := s.Start(of(t, "a"), d); !errors.Is(err, llm.ErrOverloaded) {
				t.Errorf("before the last event: %v", err)
			}
			e, err := run.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last = e.Finish != nil
		}
		next, err := s.Start(of(t, "a"), d)
		if (err == nil) != stream {
			t.Errorf("stream %v: after the last event: %v", stream, err)
		}
		run.Close()
		if err == nil {
			next.Close()
		}
		if next, err = s.Start(of(t, "a"), d); err != nil {
			t.Fatal("the place did not come back:", err)
		}
		if _, err := s.Start(of(t, "a"), d); err == nil {
			t.Error("a place appeared from nowhere")
		}
		next.Close()
	}
}

// slowEnd is an engine whose streams end when over is closed, however early they are canceled.
type slowEnd struct{ over chan struct{} }

func (e slowEnd) Submit(context.Context, engine.Request) (generate.Stream, error) { return e, nil }
func (e slowEnd) Healthy() error                                                  { return nil }
func (e slowEnd) Next(ctx context.Context) (engine.Event, error) {
	select {
	case <-ctx.Done():
		return engine.Event{}, context.Cause(ctx)
	case <-e.over:
		return engine.Event{}, llm.ErrClosed
	}
}

// TestPlacesOfTheGone: a request that ends early keeps its places until the engine has let go of it.
func TestPlacesOfTheGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := slowEnd{make(chan struct{})}
		s := sharing(e, 1)
		run, err := s.Start(of(t, "a"), generate.Draft{Inputs: "x"})
		if err != nil {
			t.Fatal(err)
		}
		go run.Close()
		synctest.Wait()
		if _, err := s.Start(of(t, "b"), generate.Draft{Inputs: "x"}); !errors.Is(err, llm.ErrOverloaded) {
			t.Errorf("while the engine has it: %v", err)
		}
		close(e.over)
		synctest.Wait()
		if run, err = s.Start(of(t, "b"), generate.Draft{Inputs: "x"}); err != nil {
			t.Fatal(err)
		}
		run.Close()
	})
}

// TestFlexStandsBeneath: requests of the tier flex give way to all others.
func TestFlexStandsBeneath(t *testing.T) {
	e := &generatetest.Engine{}
	s := sharing(e, 64)
	for _, tier := range []generate.Tier{"", generate.TierFlex, generate.TierPriority} {
		run, err := s.Start(of(t, "a"), generate.Draft{Inputs: "x", Tier: tier})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
	}
	if r := e.Requests(); len(r) != 3 || r[0].Beneath || !r[1].Beneath || r[2].Beneath || r[1].Share != 1.0/8 {
		t.Errorf("the engine got %+v", r)
	}
}
