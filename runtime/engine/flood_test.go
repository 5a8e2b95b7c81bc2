package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// crowd submits requests between the steps of an engine, from the model's own pass, so that nothing depends on time.
type crowd struct {
	t      *testing.T
	engine *Engine
	random *rand.Rand
	step   int
	flood  []*Stream // as many as wanted of the client flood
	wanted int
	polite []question
	counts []int // of steps until the first tokens of polite clients
	done   chan struct{}
}

// question is a polite client's request and the step before which it came.
type question struct {
	stream *Stream
	step   int
}

// submit adds a request of a client.
func (c *crowd) submit(client string, prompt, maxNew int) *Stream {
	p := make([]llm.Token, prompt)
	for i := range p {
		p[i] = llm.Token(c.random.IntN(len(pieces)-3) + 3)
	}
	settings := params(maxNew)
	settings.IgnoreEOS = true
	st, err := c.engine.Submit(c.t.Context(), Request{Prompt: p, Params: settings, Client: client})
	if err != nil {
		c.t.Errorf("%s: %v", client, err)
	}
	return st
}

// before is called at the start of each step: what the one before generated is there.
func (c *crowd) before(llm.Step) {
	if c.step++; c.step > 2500 {
		if c.step == 2501 {
			close(c.done)
		}
		return
	}
	c.polite = slices.DeleteFunc(c.polite, func(a question) bool {
		_, ok := a.stream.pop()
		if ok {
			c.counts = append(c.counts, c.step-a.step)
			a.stream.Close()
		}
		return ok
	})
	c.flood = slices.DeleteFunc(c.flood, func(s *Stream) bool {
		for {
			if it, ok := s.pop(); !ok || it.err != nil {
				return ok
			}
		}
	})
	for len(c.flood) < c.wanted {
		c.flood = append(c.flood, c.submit("flood", 1+c.random.IntN(20), 1+c.random.IntN(60)))
	}
	for _, client := range []string{"one", "two"} {
		if c.random.IntN(20) == 0 {
			c.polite = append(c.polite, question{c.submit(client, 1+c.random.IntN(20), 8), c.step})
		}
	}
}

// firstTokens returns the sorted counts of steps until polite clients' first tokens beside so many requests of another.
func firstTokens(t *testing.T, seed uint64, flood int) []int {
	t.Helper()
	m := newFake(120, 4, 200)
	e := start(t, m, Config{Settings: sched.Settings{MaxConcurrentRequests: 1200, MaxBatchSize: 8}})
	c := &crowd{t: t, engine: e, random: rand.New(rand.NewPCG(seed, 5)), wanted: flood, done: make(chan struct{})}
	m.before = c.before
	keep := make(chan struct{})
	go func() { // something is always to be computed, so that steps go on
		defer close(keep)
		for {
			select {
			case <-c.done:
				return
			default:
				_, _ = generate(e, Request{Prompt: []llm.Token{3}, Params: params(150), Client: "clock"})
			}
		}
	}()
	<-c.done
	<-keep
	for _, s := range c.flood {
		s.Close()
	}
	for _, a := range c.polite {
		a.stream.Close()
	}
	slices.Sort(c.counts)
	return c.counts
}

// TestFloodDelaysNoFirstToken: beside a key with a thousand requests the 99th percentile of the steps until the first
// tokens of two polite keys is at most twice what it is without them.
func TestFloodDelaysNoFirstToken(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			alone, beside := firstTokens(t, seed, 0), firstTokens(t, seed, 1000)
			if len(alone) < 100 || len(beside) < 100 {
				t.Fatalf("%d and %d first tokens were seen", len(alone), len(beside))
			}
			if p, q := alone[len(alone)*99/100], beside[len(beside)*99/100]; q > 2*p {
				t.Errorf("%d steps beside a flood, %d without", q, p)
			} else {
				t.Logf("the 99th percentile is %d steps beside a flood, %d without; the median %d and %d", q, p,
					beside[len(beside)/2], alone[len(alone)/2])
			}
		})
	}
}
