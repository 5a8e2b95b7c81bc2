package generate_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func equal(a, b llm.Params) bool { return reflect.DeepEqual(a, b) }

// log notes what an Observer is told.
type log struct {
	mu       sync.Mutex
	arrived  int
	checked  int
	refused  []error
	tokens   int
	finished []generate.Timings
}

func (l *log) Arrived()                  { l.mu.Lock(); l.arrived++; l.mu.Unlock() }
func (l *log) Checked(generate.Request)  { l.mu.Lock(); l.checked++; l.mu.Unlock() }
func (l *log) Refused(err error)         { l.mu.Lock(); l.refused = append(l.refused, err); l.mu.Unlock() }
func (l *log) Program(int)               {}
func (l *log) Token(bool, time.Duration) { l.mu.Lock(); l.tokens++; l.mu.Unlock() }
func (l *log) Finished(t generate.Timings, _ []llm.Finish) {
	l.mu.Lock()
	l.finished = append(l.finished, t)
	l.mu.Unlock()
}

func TestBestOf(t *testing.T) {
	seq := func(r engine.Request, i int, logprob float32, text string) []engine.Event {
		return generatetest.Sequence(r, i, llm.FinishLength,
			generate.Token{Text: text, Logprob: logprob}, generate.Token{Text: text, Logprob: logprob})
	}
	l := generatetest.Limits()
	l.MaxBestOf = 4
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		var all []engine.Event
		a, b, c, d := seq(r, 0, -3, "a"), seq(r, 1, -1, "b"), seq(r, 2, -1, "c"), seq(r, 3, -2, "d")
		for i := range a { // interleaved, as the engine sends them
			all = append(all, d[i], b[i], a[i], c[i])
		}
		return all
	}}
	run, err := generate.New(e, generatetest.Words{}, l, nil).Start(t.Context(), generate.Draft{Inputs: "x",
		BestOf: ptr(uint64(4)), DoSample: true})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	res, err := run.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	order := res.Best.Finish.Text
	for _, o := range res.Others {
		order += o.Finish.Text
	}
	if order != "bbaaccdd" {
		t.Errorf("best first, then the others in order: got %s, want bbaaccdd", order)
	}
	if len(res.Best.Tokens) != 2 || res.Best.Top != nil {
		t.Errorf("best has tokens %v and top %v", res.Best.Tokens, res.Best.Top)
	}
}

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := generatetest.Limits()
		l.MaxConcurrent = 3
		o := &log{}
		s := generate.New(&generatetest.Engine{}, generatetest.Words{}, l, o)
		start := func(bestOf uint64) (*generate.Run, error) {
			return s.Start(t.Context(), generate.Draft{Inputs: "x", BestOf: &bestOf, DoSample: true})
		}
		first, err := start(2)
		if err != nil {
			t.Fatal(err)
		}
		var full *generate.Overloaded
		if _, err = start(2); !errors.As(err, &full) || !errors.Is(err, llm.ErrOverloaded) {
			t.Fatalf("two of one left: got %v", err)
		}
		if full.RetryAfter != time.Second {
			t.Errorf("retry after %s, want the least, 1s", full.RetryAfter)
		}
		second, err := start(1)
		if err != nil {
			t.Fatal(err)
		}
		// Overload is told before anything else is looked at.
		if _, err = s.Start(t.Context(), generate.Draft{}); !errors.Is(err, llm.ErrOverloaded) {
			t.Fatalf("none left: got %v", err)
		}
		time.Sleep(7500 * time.Millisecond)
		if _, err = start(1); !errors.As(err, &full) || full.RetryAfter != 8*time.Second {
			t.Errorf("nothing came back for 7.5s: retry after %v, want 8s", full.RetryAfter)
		}
		time.Sleep(time.Hour)
		if _, err = start(1); !errors.As(err, &full) || full.RetryAfter != time.Minute {
			t.Errorf("nothing came back for an hour: retry after %v, want the most, 1m", full.RetryAfter)
		}
		first.Close()
		first.Close() // gives nothing twice
		third, err := start(2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = start(1); err == nil {
			t.Error("a permit appeared from nowhere")
		}
		second.Close()
		third.Close()
		if o.arrived != 8 || len(o.refused) != 8 { // 5 overloaded, 3 closed before their end
			t.Errorf("told of %d arrivals, %d refusals: %v", o.arrived, len(o.refused), o.refused)
		}
	})
}

func TestRefusedStartGivesItsPermitBack(t *testing.T) {
	l := generatetest.Limits()
	l.MaxConcurrent = 1
	for _, refuse := range []error{nil, llm.ErrOverloaded, llm.ErrDraining, llm.ErrTooLong} {
		s := generate.New(&generatetest.Engine{Refuse: refuse}, generatetest.Words{}, l, nil)
		for range 3 {
			d := generate.Draft{Inputs: "x"}
			if refuse == nil {
				d.Inputs = ""
			}
			_, err := s.Start(t.Context(), d)
			if refuse != nil && !errors.Is(err, refuse) {
				t.Errorf("got %v, want %v", err, refuse)
			}
			var invalid *generate.Invalid
			if refuse == nil && !errors.As(err, &invalid) {
				t.Errorf("got %v", err)
			}
		}
	}
}

func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		e      *generatetest.Engine
		err    error
		refuse error
	}{
		{"well", &generatetest.Engine{}, io.EOF, nil},
		{"broken", &generatetest.Engine{Script: unfinished, Break: llm.ErrBackend}, llm.ErrBackend, llm.ErrBackend},
		{"too early", &generatetest.Engine{Script: unfinished}, generate.ErrIncomplete, generate.ErrIncomplete},
	} {
		o := &log{}
		run, err := generate.New(c.e, generatetest.Words{}, generatetest.Limits(), o).Start(t.Context(),
			generate.Draft{Inputs: "x", MaxNewTokens: ptr(uint32(3))})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			if _, err = run.Next(t.Context()); err == nil {
				n++
			}
		}
		run.Close()
		if n != 3 || !errors.Is(err, c.err) {
			t.Errorf("%s: %d tokens, then %v", c.name, n, err)
		}
		if o.arrived != 1 || o.checked != 1 || o.tokens != 3 || len(o.finished)+len(o.refused) != 1 {
			t.Errorf("%s: told %+v", c.name, o)
		}
		if c.refuse != nil && !errors.Is(o.refused[0], c.refuse) {
			t.Errorf("%s: told %v", c.name, o.refused)
		}
	}
}

func unfinished(r engine.Request) []engine.Event {
	events := generatetest.Echo(r)
	events[len(events)-1].Finish = nil
	return events
}

func TestTimings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &generatetest.Engine{Pause: 10 * time.Millisecond, Script: func(r engine.Request) []engine.Event {
			events := generatetest.Echo(r)
			events[len(events)-1].Timings.Queued = 4 * time.Millisecond
			return events
		}}
		run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(t.Context(),
			generate.Draft{Inputs: "x", MaxNewTokens: ptr(uint32(2))})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		res, err := run.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ms := time.Millisecond
		if want := (generate.Timings{Total: 20 * ms, Queue: 4 * ms, Inference: 16 * ms,
			PerToken: 8 * ms}); res.Timings != want {
			t.Errorf("got %+v, want %+v", res.Timings, want)
		}
	})
}

func TestNextAfterImpatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &generatetest.Engine{Pause: time.Minute}
		run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(t.Context(),
			generate.Draft{Inputs: "x", MaxNewTokens: ptr(uint32(1))})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := run.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if ev, err := run.Next(t.Context()); err != nil || ev.Finish == nil {
			t.Errorf("after waiting again: %+v, %v", ev, err)
		}
	})
}

func TestCloseEndsTheSequence(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{})}
	run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(t.Context(),
		generate.Draft{Inputs: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if e.Running() != 1 {
		t.Fatal("nothing runs")
	}
	run.Close()
	for e.Running() != 0 { // the engine's end of the context is told on another goroutine
		time.Sleep(time.Millisecond)
	}
}

// TestWorkersAreBounded holds two prompts in the tokenizer; a third waits and
// can give up.
func TestWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := generate.New(&generatetest.Engine{}, generatetest.Words{Hold: hold}, generatetest.Limits(), nil)
		done := make(chan error)
		for range 2 {
			go func() { _, err := s.Encode(t.Context(), "a b"); done <- err }()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Start(short, generate.Draft{Inputs: "x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the third got %v", err)
		}
		close(hold)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
