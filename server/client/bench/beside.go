package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Disturbed is what long prompts do to streams that generate.
type Disturbed struct {
	// Streams generate while Prompts of PromptTokens tokens come, one after the other. A stream that ends begins anew.
	Streams      int `json:"streams"`
	Prompts      int `json:"prompts"`
	PromptTokens int `json:"prompt_tokens"`
	// Without has the gaps between two tokens of a stream while no prompt is computed, that of another stream neither,
	// With those that end between the sending of a prompt and its first token.
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
	outcomes := make([][]outcome, n)
	came, failed := make([]atomic.Int64, n), make(chan string, n)
	var streams sync.WaitGroup
	for i := range outcomes {
		streams.Go(func() { failed <- g.keep(streaming, &outcomes[i], &came[i]) })
	}
	sent, err := g.disturb(ctx, long, came, failed)
	stop()
	streams.Wait()
	if err != nil {
		return nil, err
	}
	d.Prompts = len(sent)
	for _, s := range sent {
		first = append(first, s.to.Sub(s.from))
	}
	without, with := split(slices.Concat(outcomes...), sent)
	d.Without, d.With, d.FirstToken, d.Alone = summarize(without), summarize(with), summarize(first), summarize(alone)
	return d, nil
}

// keep has one stream after the other generate until ctx ends or one fails, whose failure it returns. It counts the
// tokens in came, and keeps the outcomes of those that had some in all.
func (g *generator) keep(ctx context.Context, all *[]outcome, came *atomic.Int64) (failure string) {
	for ctx.Err() == nil {
		out := outcome{due: time.Now(), came: came}
		failure := g.client.stream(ctx, g.prompts.next(), g.o.OutputTokens, true, &out)
		if len(out.tokens) > 0 {
			*all = append(*all, out)
		}
		if failure != "" {
			return withReason(failure, out.said)
		}
	}
	return failCancelled
}

// disturb sends the prompts, each when all streams have generated for a while.
func (g *generator) disturb(ctx context.Context, long *prompts, came []atomic.Int64, failed <-chan string) (sent []span,
	err error) {
	for range g.o.Requests {
		if err := g.calm(ctx, came, failed); err != nil {
			return nil, err
		}
		at, err := g.firstToken(ctx, long)
		if err != nil {
			return nil, err
		}
		select {
		case why := <-failed:
			return nil, streamFailed(why)
		default:
			sent = append(sent, at)
		}
	}
	return sent, nil
}

// calm waits until each of the streams has had some more tokens, for o.Timeout at most.
func (g *generator) calm(ctx context.Context, came []atomic.Int64, failed <-chan string) error {
	late := time.NewTimer(g.o.Timeout)
	defer late.Stop()
	until := make([]int64, len(came))
	for i := range came {
		until[i] = came[i].Load() + quiet
	}
	for i := range came {
		for came[i].Load() < until[i] {
			select {
			case why := <-failed:
				return streamFailed(why)
			case <-ctx.Done():
				return ctx.Err()
			case <-late.C:
				return fmt.Errorf("a stream has had no %d tokens within %v", quiet, g.o.Timeout)
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

func streamFailed(why string) error { return fmt.Errorf("a stream beside the prompts failed: %s", why) }

// firstToken sends a prompt for one token. It returns when it was sent and when the token came.
func (g *generator) firstToken(ctx context.Context, from *prompts) (span, error) {
	o := g.client.generate(ctx, time.Now(), from.next(), 1)
	if len(o.tokens) == 0 {
		return span{}, fmt.Errorf("a prompt of %d tokens has no first token: %s", g.o.Beside,
			withReason(o.failure, o.said))
	}
	return span{o.due, o.tokens[0]}, nil
}

// split returns the streams' gaps while none of the prompts was computed, and those that end while one was. A
// stream's first tokens, those right after a prompt, and those while another stream's prompt was computed are in
// neither.
func split(streams []outcome, prompts []span) (without, with []time.Duration) {
	beginning := func(at time.Time, gap time.Duration) bool {
		return slices.ContainsFunc(streams, func(o outcome) bool {
			return o.due.Before(at) && at.Add(-gap).Before(o.tokens[0])
		})
	}
	for _, o := range streams {
		last, p := 0, 0 // the token after which settling counts, and the next prompt
		for p < len(prompts) && o.tokens[0].After(prompts[p].to) {
			p++
		}
		for i := 1; i < len(o.tokens) && p < len(prompts); i++ {
			at, gap := o.tokens[i], o.tokens[i].Sub(o.tokens[i-1])
			switch {
			case at.After(prompts[p].to):
				p, last = p+1, i
			case at.After(prompts[p].from):
				with = append(with, gap)
			case i-last > settling && !beginning(at, gap):
				without = append(without, gap)
			}
		}
	}
	return without, with
}

// writeBeside writes runs of beside for people.
func writeBeside(b *strings.Builder, all []*Disturbed) {
	rows := [][]string{
		{"", "", "no prompt ms", "", "", "beside one ms", "", "", "", "first token ms", ""},
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
