package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Disturbed is what long prompts do to streams that generate.
type Disturbed struct {
	// Streams generate while Prompts of PromptTokens tokens come, one after the other: as many as the streams last for.
	Streams      int `json:"streams"`
	Prompts      int `json:"prompts"`
	PromptTokens int `json:"prompt_tokens"`
	// Without has the gaps between two tokens of a stream while no prompt is computed, With those that end between the
	// sending of a prompt and its first token.
	Without Summary `json:"without_ms"`
	With    Summary `json:"with_ms"`
	// FirstToken is how long the prompts' first tokens took, Alone the same of as many prompts without streams.
	FirstToken Summary `json:"ttft_ms"`
	Alone      Summary `json:"alone_ttft_ms"`
}

// quiet is how many tokens each stream has before a prompt comes, the first of which are not counted: settling.
const quiet, settling = 60, 10

// span is a time from a moment to a later one.
type span struct{ from, to time.Time }

// besides runs beside for each concurrency.
func (g *generator) besides(ctx context.Context) (all []*Disturbed, err error) {
	o := g.o
	o.PromptTokens, o.SharedPrefix = o.Beside, 0
	o.Seed++ // the streams' prompts are no beginnings of these
	long, err := calibrate(ctx, g.client, o)
	if err != nil {
		return nil, fmt.Errorf("making prompts: %w", err)
	}
	for _, n := range o.Concurrency {
		o.Progress(fmt.Sprintf("%d prompts of %d tokens beside %d streams", o.Requests, o.Beside, n))
		d, err := g.beside(ctx, n, long)
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	return all, nil
}

// beside keeps n streams busy and sends prompts of o.Beside tokens one after the other.
func (g *generator) beside(ctx context.Context, n int, long *prompts) (*Disturbed, error) {
	d := &Disturbed{Streams: n, PromptTokens: g.o.Beside}
	var alone, first []time.Duration
	for range g.o.Requests {
		at, err := g.firstToken(ctx, long)
		if err != nil {
			return nil, err
		}
		alone = append(alone, at.to.Sub(at.from))
	}
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	outcomes := make([]outcome, n)
	came, ended := make([]atomic.Int64, n), make(chan string, n)
	var streams sync.WaitGroup
	for i := range outcomes {
		outcomes[i].came = &came[i]
		streams.Go(func() {
			ended <- g.client.stream(streaming, g.prompts.next(), g.o.OutputTokens, &outcomes[i])
		})
	}
	sent, err := g.disturb(ctx, long, came, ended)
	stop()
	streams.Wait()
	if err != nil {
		return nil, err
	}
	d.Prompts = len(sent)
	for _, s := range sent {
		first = append(first, s.to.Sub(s.from))
	}
	without, with := split(outcomes, sent)
	d.Without, d.With, d.FirstToken, d.Alone = summarize(without), summarize(with), summarize(first), summarize(alone)
	return d, nil
}

// disturb sends the prompts, each when all streams have generated for a while, until a stream has had all its tokens.
func (g *generator) disturb(ctx context.Context, long *prompts, came []atomic.Int64, ended <-chan string) (sent []span,
	err error) {
	for range g.o.Requests {
		switch why, over, err := g.calm(ctx, came, ended); {
		case err != nil:
			return nil, err
		case over:
			return sent, streamEnded(why, len(sent))
		}
		at, err := g.firstToken(ctx, long)
		if err != nil {
			return nil, err
		}
		select {
		case why := <-ended: // it did not last as long as the prompt
			return sent, streamEnded(why, len(sent))
		default:
			sent = append(sent, at)
		}
	}
	return sent, nil
}

// calm waits until each of the streams has had some more tokens, for o.Timeout at most. over says that one of them
// ended instead, and why is its failure.
func (g *generator) calm(ctx context.Context, came []atomic.Int64, ended <-chan string) (why string, over bool,
	err error) {
	late := time.NewTimer(g.o.Timeout)
	defer late.Stop()
	until := make([]int64, len(came))
	for i := range came {
		until[i] = came[i].Load() + quiet
	}
	for i := range came {
		for came[i].Load() < until[i] {
			select {
			case why := <-ended:
				return why, true, nil
			case <-ctx.Done():
				return "", false, ctx.Err()
			case <-late.C:
				return "", false, fmt.Errorf("a stream has had no %d tokens within %v", quiet, g.o.Timeout)
			case <-time.After(time.Millisecond):
			}
		}
	}
	return "", false, nil
}

// streamEnded is why streams that ended after so many prompts show nothing; nil where they do.
func streamEnded(why string, prompts int) error {
	switch {
	case why != "":
		return fmt.Errorf("a stream beside the prompts failed: %s", why)
	case prompts == 0:
		return errors.New("a stream had all its tokens before a prompt was done: let it have more output tokens")
	}
	return nil
}

// firstToken sends a prompt for one token. It returns when it was sent and when the token came.
func (g *generator) firstToken(ctx context.Context, from *prompts) (span, error) {
	o := g.client.generate(ctx, time.Now(), from.next(), 1)
	if len(o.tokens) == 0 {
		return span{}, fmt.Errorf("a prompt of %d tokens has no first token: %s", g.o.Beside, o.failure)
	}
	return span{o.due, o.tokens[0]}, nil
}

// split returns the streams' gaps while none of the prompts was computed, and those that end while one was. A
// stream's first tokens, and those right after a prompt, are in neither.
func split(streams []outcome, prompts []span) (without, with []time.Duration) {
	for _, o := range streams {
		last := 0 // the token after which settling counts
		for i, p := 1, 0; i < len(o.tokens) && p < len(prompts); i++ {
			at, gap := o.tokens[i], o.tokens[i].Sub(o.tokens[i-1])
			switch {
			case at.After(prompts[p].to):
				p, last = p+1, i
			case at.After(prompts[p].from):
				with = append(with, gap)
			case i-last > settling:
				without = append(without, gap)
			}
		}
	}
	return without, with
}

// writeBeside writes runs of beside for people.
func writeBeside(b *strings.Builder, all []*Disturbed) {
	rows := [][]string{
		{"", "", "gaps, no prompt ms", "", "", "beside a prompt ms", "", "", "", "first token ms", ""},
		{"streams", "prompts", "p50", "p90", "p99", "p50", "p90", "p99", "p99 times", "p50", "alone"},
	}
	for _, d := range all {
		row := []string{fmt.Sprint(d.Streams), fmt.Sprintf("%d of %d", d.Prompts, d.PromptTokens)}
		row = append(append(row, quantiles(d.Without)...), quantiles(d.With)...)
		times := "-"
		if d.Without.P99 > 0 && d.With.Count > 0 {
			times = fmt.Sprintf("%.1f", d.With.P99/d.Without.P99)
		}
		rows = append(rows, append(row, times, number(d.FirstToken.P50), number(d.Alone.P50)))
	}
	writeColumns(b, rows)
}
