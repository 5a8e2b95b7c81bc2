package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// generator sends requests and collects their outcomes.
type generator struct {
	client  *client
	prompts *prompts
	o       Options
}

// send runs one request. Where the server does not say how long its prompt is
// (TGI before 2.3), the length is what the prompt was made for.
func (g *generator) send(ctx context.Context, due time.Time, prompt string, maxNew int) outcome {
	out := g.client.generate(ctx, due, prompt, maxNew)
	if out.inputTokens == 0 {
		out.inputTokens = g.o.PromptTokens
	}
	return out
}

// closed keeps n streams busy until the requests are sent or the time is up.
func (g *generator) closed(ctx context.Context, n int) Measured {
	start := time.Now()
	outcomes := make([][]outcome, n)
	var mu sync.Mutex
	left := g.o.Requests
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || ctx.Err() != nil || g.late(start) {
			return false
		}
		left--
		return true
	}
	var streams sync.WaitGroup
	for i := range n {
		streams.Go(func() {
			for take() {
				prompt := g.prompts.next()
				outcomes[i] = append(outcomes[i], g.send(ctx, time.Now(), prompt, g.o.OutputTokens))
			}
		})
	}
	streams.Wait()
	var all []outcome
	for _, list := range outcomes {
		all = append(all, list...)
	}
	m := measure(start, all)
	m.Concurrency = n
	m.Together = summarize(together(all, n))
	return m
}

// late reports whether a run that began at start may send no more.
func (g *generator) late(start time.Time) bool {
	return g.o.Duration > 0 && time.Since(start) >= g.o.Duration
}

// open sends at moments with exponentially distributed gaps. No more than
// MaxConcurrency requests are under way at once; the others wait their turn, and
// that wait is part of what is measured.
func (g *generator) open(ctx context.Context) Measured {
	start := time.Now()
	gaps := rand.New(rand.NewPCG(g.o.Seed, 1<<63))
	mean := 1 / g.o.Rate
	if g.o.Plan != nil { // 200 random gaps may well be 10 % of a rate off: those of a trial are made to fit it
		sum, same := 0.0, rand.New(rand.NewPCG(g.o.Seed, 1<<63))
		for range g.o.Requests {
			sum += same.ExpFloat64()
		}
		mean *= float64(g.o.Requests) / sum
	}
	slots := make(chan struct{}, g.o.inFlight)
	var mu sync.Mutex
	var all []outcome
	var requests sync.WaitGroup
	last := start
	for range g.o.Requests {
		due := last.Add(time.Duration(gaps.ExpFloat64() * mean * float64(time.Second)))
		if g.o.Duration > 0 && due.Sub(start) >= g.o.Duration || !sleepUntil(ctx, due) {
			break
		}
		last = due
		slots <- struct{}{} // free again when a request ends, which ctx and timeouts see to
		requests.Go(func() {
			out := g.send(ctx, due, g.prompts.next(), g.o.OutputTokens)
			<-slots
			mu.Lock()
			all = append(all, out)
			mu.Unlock()
		})
	}
	requests.Wait()
	m := measure(start, all)
	m.Rate = g.o.Rate
	m.Sending, m.KeptUp = last.Sub(start).Seconds(), keptUp(start, last.Sub(start), all)
	return m
}

// sleepUntil returns false when ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// repeat sends prompts twice each, one request at a time.
func (g *generator) repeat(ctx context.Context) *Repeated {
	g.o.Progress(fmt.Sprintf("%d prompts of %d tokens, each sent twice", g.o.Requests, g.o.PromptTokens))
	start := time.Now()
	var cold, cached []outcome
	for range g.o.Requests {
		if ctx.Err() != nil || g.late(start) {
			break
		}
		prompt := g.prompts.next()
		cold = append(cold, g.send(ctx, time.Now(), prompt, 1))
		cached = append(cached, g.send(ctx, time.Now(), prompt, 1))
	}
	first, second := measure(start, cold), measure(start, cached)
	return &Repeated{
		Prompts: len(cold),
		Failed:  first.Requests - first.Completed + second.Requests - second.Completed,
		Cold:    first.FirstToken,
		Cached:  second.FirstToken,
	}
}
