package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

func open(t *testing.T, e *Engine, slots int) *Session {
	t.Helper()
	s, err := e.OpenSession(SessionRequest{Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until reads a session until all of the spans given have ended.
func (r *reader) until(spans ...*Span) {
	for slices.ContainsFunc(spans, func(sp *Span) bool { return !r.over[sp] }) {
		ev, err := r.s.Next(context.Background())
		if err != nil {
			r.t.Fatal(err)
		}
		if r.over[ev.Span] {
			r.t.Fatal("an event behind the last")
		}
		r.events[ev.Span] = append(r.events[ev.Span], ev)
		r.over[ev.Span] = ev.Last()
	}
}

// reader keeps what the spans of a session gave.
type reader struct {
	t      *testing.T
	s      *Session
	events map[*Span][]SpanEvent
	over   map[*Span]bool
}

func newReader(t *testing.T, s *Session) *reader {
	return &reader{t: t, s: s, events: map[*Span][]SpanEvent{}, over: map[*Span]bool{}}
}

// outcome is what a span generated, as that of a request.
func (r *reader) outcome(sp *Span) outcome {
	o := outcome{tokens: make([][]llm.Token, 1), logprobs: make([][]float32, 1), texts: make([]string, 1),
		finish: make([]llm.Finish, 1), best: make([][]TopToken, 1)}
	for _, ev := range r.events[sp] {
		if ev.Err != nil {
			r.t.Fatal(ev.Err)
		}
		o.tokens[0] = append(o.tokens[0], ev.Event.Token)
		o.logprobs[0] = append(o.logprobs[0], ev.Event.Logprob)
		if !ev.Event.Special {
			o.texts[0] += ev.Event.Text
		}
		if ev.Event.Finish != nil {
			o.finish[0] = *ev.Event.Finish
		}
	}
	return o
}

// TestContextsAsFresh: whatever was forked, appended, taken back and generated before, a context goes on as a request
// with its text does, and its scores and logits are those of such a text.
func TestContextsAsFresh(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		cfg := Config{Settings: sched.Settings{MaxBatchPrefillTokens: 4 + r.IntN(30), MaxBatchSize: 2 + r.IntN(5),
			NoPrefixSharing: seed%4 == 3}}
		if seed%2 == 1 {
			cfg.Speculation = draft.Settings{Tokens: 4, Always: true}
		}
		m := newFake(14+r.IntN(20), 4, 50)
		play(t, start(t, m, cfg), start(t, newFake(100, 4, 50), Config{}), r)
	}
}

// begunSpan is one that a player began.
type begunSpan struct {
	sp      *Span
	prompt  []llm.Token
	request Request
	scores  int // of the last tokens of the prompt
	look    bool
}

func play(t *testing.T, e, fresh *Engine, r *rand.Rand) {
	s := open(t, e, 1+r.IntN(3))
	defer s.Close()
	in := newReader(t, s)
	contexts := []*Context{s.New(randomTokens(r, 1+r.IntN(20)), nil)}
	for range 60 {
		var begun []begunSpan
		for range 1 + r.IntN(4) {
			c := contexts[r.IntN(len(contexts))]
			if c.Running() {
				continue
			}
			n := len(c.Tokens())
			switch k := r.IntN(7); {
			case k == 0 && len(contexts) < 8:
				contexts = append(contexts, c.Fork())
			case k == 1 && n < 30:
				c.Append(randomTokens(r, 1+r.IntN(9)))
			case k == 2 && n > 1:
				c.Truncate(1 + r.IntN(n-1))
			case k == 3 && n > 1:
				f := c.Fork()
				contexts = append(contexts, f)
				sp, err := f.Score(1 + r.IntN(n-1))
				if err != nil {
					t.Fatal(err)
				}
				begun = append(begun, begunSpan{sp: sp, prompt: slices.Clone(f.Tokens()), scores: sp.score})
			case k == 4:
				sp, err := c.Look()
				if err != nil {
					t.Fatal(err)
				}
				begun = append(begun, begunSpan{sp: sp, prompt: slices.Clone(c.Tokens()), look: true})
			case n < 40:
				begun = append(begun, generateSpan(t, c, r))
			}
		}
		for _, b := range begun {
			in.until(b.sp)
			if err := in.compare(b, fresh); err != nil {
				t.Fatal(err)
			}
		}
		if len(contexts) > 6 {
			contexts[0].Drop()
			contexts = contexts[1:]
		}
	}
}

// generateSpan lets a context generate with settings by chance, half of the time with user code that may be late.
func generateSpan(t *testing.T, c *Context, r *rand.Rand) begunSpan {
	p := params(1 + r.IntN(8))
	p.Sample, p.Seed, p.TopP = r.IntN(2) == 0, r.Uint64(), 0.9
	if r.IntN(3) == 0 {
		p.Stop = []string{"b"}
	}
	req := Request{Prompt: slices.Clone(c.Tokens()), Params: p}
	if r.IntN(2) == 0 {
		at := r.IntN(6)
		req.Plugins = func(int) sample.Plugins {
			return sample.Plugins{Processors: []sample.Processor{stopper{at: at, force: -1}}, Guests: []string{"g"}}
		}
	}
	sr := SpanRequest{Params: p}
	if req.Plugins != nil {
		sr.Plugins = req.Plugins(0)
	}
	sp, err := c.Start(sr)
	if err != nil {
		t.Fatal(err)
	}
	return begunSpan{sp: sp, prompt: req.Prompt, request: req}
}

// compare compares a span with a request of the same text to a fresh engine.
func (r *reader) compare(b begunSpan, fresh *Engine) error {
	last := r.events[b.sp][len(r.events[b.sp])-1]
	switch {
	case last.Err != nil:
		return last.Err
	case b.look:
		want := make([]float32, len(pieces))
		logitsOf(b.prompt, want)
		if !slices.Equal(last.Row, want) {
			return fmt.Errorf("behind %v: other logits", b.prompt)
		}
		return nil
	case b.scores > 0:
		p := params(1)
		p.PromptLogprobs = true
		o, err := generate(fresh, Request{Prompt: b.prompt, Params: p})
		if want := o.prefill[len(o.prefill)-b.scores:]; err != nil || !slices.Equal(last.Logprobs, want) {
			return fmt.Errorf("the last %d of %v: %v, want %v (%v)", b.scores, b.prompt, last.Logprobs, want, err)
		}
		return nil
	}
	got := r.outcome(b.sp)
	if fin := got.finish[0]; fin.Reason == llm.FinishStop || fin.Reason == llm.FinishEOS {
		b.request.Params.MaxNewTokens++ // a span ends by what ends the text, if its last token brings that
	}
	want, err := generate(fresh, b.request)
	if err != nil {
		return err
	}
	if err := same(got, want); err != nil {
		return fmt.Errorf("behind %v: %w", b.prompt, err)
	}
	text := append(slices.Clone(b.prompt), got.tokens[0]...)
	if got.finish[0].Reason == llm.FinishEOS || last.Dropped {
		text = text[:len(text)-1]
	}
	if c := b.sp.Context; c != nil && !slices.Equal(c.Tokens(), text) {
		return fmt.Errorf("the context has %v, want %v", c.Tokens(), text)
	}
	return nil
}

// TestSpanEndsByItsStop: a span whose last token brings the stop string ends by it, in a request the length goes first.
func TestSpanEndsByItsStop(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	prompt := []llm.Token{3, 4, 5}
	p := params(8)
	p.IgnoreEOS = true
	plain, err := generate(e, Request{Prompt: prompt, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 8; n++ {
		p.MaxNewTokens, p.Stop = n, []string{pieces[plain.tokens[0][n-1]]}
		whole, err := generate(e, Request{Prompt: prompt, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, e, 1)
		in, c := newReader(t, s), s.New(slices.Clone(prompt), nil)
		sp, err := c.Start(SpanRequest{Params: p})
		if err != nil {
			t.Fatal(err)
		}
		in.until(sp)
		got, of := in.outcome(sp).finish[0], whole.finish[0]
		s.Close()
		if got.Reason != llm.FinishStop || got.Stop != p.Stop[0] || got.Generated != of.Generated ||
			of.Generated == n && of.Reason != llm.FinishLength || got.Text != of.Text {
			t.Errorf("%d tokens, %q: %+v, and of a request %+v", n, p.Stop, got, of)
		}
	}
}

// TestSessionComputesOnce: forks, and spans that follow each other, compute nothing again, and of what forks that start
// together have in common, only the first computes anything.
func TestSessionComputesOnce(t *testing.T) {
	e := start(t, newFake(100, 4, 90), Config{Settings: sched.Settings{NoPrefixSharing: true}})
	s := open(t, e, 4)
	defer s.Close()
	in := newReader(t, s)
	p := params(5)
	p.IgnoreEOS = true
	r := rand.New(rand.NewPCG(1, 1))
	c := s.New(randomTokens(r, 21), nil)
	spans := func(list []*Context, want ...int) {
		t.Helper()
		var begun []*Span
		for _, c := range list {
			sp, err := c.Start(SpanRequest{Params: p})
			if err != nil {
				t.Fatal(err)
			}
			begun = append(begun, sp)
		}
		in.until(begun...)
		for i, sp := range begun {
			if got := in.events[sp][len(in.events[sp])-1].Computed; got != want[i] {
				t.Errorf("%d: %d tokens are computed, want %d", i, got, want[i])
			}
		}
	}
	spans([]*Context{c}, 21+4)
	spans([]*Context{c}, 1+4) // its last token, and four of the five new ones
	spans([]*Context{c.Fork(), c.Fork(), c.Fork()}, 1+4, 4, 4)
	d := c.Fork()
	d.Truncate(10)
	d.Append([]llm.Token{9, 9})
	spans([]*Context{d}, 2+4)
	f := s.New(randomTokens(r, 7), nil)
	spans([]*Context{f.Fork(), f.Fork(), f}, 7+4, 4, 4)
	g := s.New(randomTokens(r, 9), nil)
	other := g.Fork()
	other.Append([]llm.Token{5})
	spans([]*Context{g, other}, 9+4, 10+4) // what they have in common is computed in the same step
}

// TestSessionEnds: what a session holds goes with it, whatever is under way, and slots are taken until then.
func TestSessionEnds(t *testing.T) {
	for name, end := range map[string]func(e *Engine, s *Session){
		"Close":      func(_ *Engine, s *Session) { s.Close() },
		"engine":     func(e *Engine, s *Session) { e.Close(); s.Close() },
		"both twice": func(e *Engine, s *Session) { s.Close(); e.Close(); s.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			closed := 0
			m := newFake(100, 4, 400)
			e := start(t, m, Config{Settings: sched.Settings{MaxConcurrentRequests: 3}})
			s := open(t, e, 2)
			if _, err := e.OpenSession(SessionRequest{Slots: 2}); !errors.Is(err, llm.ErrOverloaded) {
				t.Errorf("%s: two slots of one: %v", name, err)
			}
			p := params(300)
			p.IgnoreEOS = true
			for range 4 { // two of them wait
				c := s.New([]llm.Token{5, 6, 7}, nil)
				plug := sample.Plugins{Close: func() { closed++ }}
				if _, err := c.Start(SpanRequest{Params: p, Plugins: plug}); err != nil {
					t.Fatal(err)
				}
			}
			s.New([]llm.Token{5}, nil).Fork().Drop()
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			end(e, s)
			if closed != 4 {
				t.Errorf("%s: the user code of %d spans is closed, want 4", name, closed)
			}
			for {
				if _, err := s.Next(t.Context()); err != nil {
					break
				}
			}
		})
	}
}

// TestSessionFails: a failed step fails the contexts in it, and no others.
func TestSessionFails(t *testing.T) {
	m := newFake(100, 4, 400)
	e := start(t, m, Config{})
	s := open(t, e, 2)
	defer s.Close()
	in := newReader(t, s)
	c := s.New([]llm.Token{5, 6, 7}, nil)
	f := c.Fork()
	m.mu.Lock()
	m.fail = errors.New("no more")
	m.mu.Unlock()
	sp, err := c.Start(SpanRequest{Params: params(3)})
	if err != nil {
		t.Fatal(err)
	}
	in.until(sp)
	if err := in.events[sp][0].Err; !errors.Is(err, llm.ErrBackend) || !c.Failed() {
		t.Errorf("%v, failed: %v", err, c.Failed())
	}
	c.Drop()
	if sp, err = f.Start(SpanRequest{Params: params(3)}); err != nil {
		t.Fatal(err)
	}
	in.until(sp)
	in.outcome(sp)
	if _, err := f.Start(SpanRequest{Params: params(1000)}); !errors.Is(err, llm.ErrTooLong) {
		t.Errorf("a span of 1000 tokens: %v", err)
	}
	bad := params(3)
	bad.Temperature = -1
	if _, err := f.Start(SpanRequest{Params: bad}); !errors.Is(err, llm.ErrInvalid) || f.Running() {
		t.Errorf("a temperature of -1: %v", err)
	}
}

// TestDropWhileRunning: a dropped context says nothing more, and the next one gets its slot.
func TestDropWhileRunning(t *testing.T) {
	e := start(t, newFake(100, 4, 400), Config{})
	s := open(t, e, 1)
	defer s.Close()
	p := params(390)
	p.IgnoreEOS = true
	c, d := s.New([]llm.Token{5, 6}, nil), s.New([]llm.Token{7, 8}, nil)
	if _, err := c.Start(SpanRequest{Params: p}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	sp, err := d.Start(SpanRequest{Params: params(2)})
	if err != nil {
		t.Fatal(err)
	}
	c.Drop()
	in := newReader(t, s)
	in.until(sp)
	if len(in.events) != 1 {
		t.Errorf("events of %d spans", len(in.events))
	}
}

// TestSpanIsDenied: the first token of a span is none of those that it is denied, also where a guess proposes one, and
// those behind it may be; the end can be denied. Where none is left the span ends without a token, and its context is
// as it was.
func TestSpanIsDenied(t *testing.T) {
	var all []llm.Token
	for id := range pieces {
		all = append(all, llm.Token(id))
	}
	for _, cfg := range []Config{{}, {Speculation: draft.Settings{Tokens: 4, Always: true}}} {
		for _, guests := range [][]string{nil, {"guest"}} {
			s := open(t, start(t, newFake(64, 16, 256), cfg), 1)
			in := newReader(t, s)
			c := s.New([]llm.Token{3, 4, 5}, nil)
			run := func(max int, guess, deny []llm.Token) SpanEvent {
				p := params(max)
				p.IgnoreEOS = max > 1
				sp, err := c.Start(SpanRequest{Params: p, Prediction: guess, Deny: deny, By: "program",
					Plugins: sample.Plugins{Guests: guests}})
				if err != nil {
					t.Fatal(err)
				}
				in.until(sp)
				return in.events[sp][len(in.events[sp])-1]
			}
			run(8, nil, nil)
			plain := slices.Clone(c.Tokens()[3:])
			for range 3 {
				c.Truncate(3)
				last := run(8, plain, all)
				if n := len(c.Tokens()); !last.Denied || last.Dropped || last.Err != nil || !last.Last() || n != 3 {
					t.Fatalf("all denied: %+v, %d tokens", last, n)
				}
				if run(8, plain, plain[:1]); len(c.Tokens()) != 11 || c.Tokens()[3] == plain[0] {
					t.Fatalf("%v, it was denied %d", c.Tokens(), plain[0])
				}
				c.Truncate(3)
				others := slices.DeleteFunc(slices.Clone(all), func(id llm.Token) bool { return id == plain[0] })
				if run(8, plain, others); !slices.Equal(c.Tokens()[3:], plain) {
					t.Fatalf("%v, want %v", c.Tokens()[3:], plain)
				}
				c.Truncate(3)
			}
			noEnd := slices.DeleteFunc(slices.Clone(all), func(id llm.Token) bool { return id == tokEOS })
			last := run(1, nil, noEnd)
			if n := len(c.Tokens()); !last.Dropped || last.Denied || last.Event.Token != tokEOS || n != 3 {
				t.Errorf("only the end is left: %+v, %d tokens", last, n)
			}
			none := []llm.Token{llm.Token(len(pieces))}
			if _, err := c.Start(SpanRequest{Params: params(1), Deny: none}); err == nil {
				t.Error("a token that is none was denied")
			}
			s.Close()
		}
	}
}
