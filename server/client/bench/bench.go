// Package bench puts load on a server that speaks TGI's API and reports what a
// client sees: time to first token, time between tokens, end to end, tokens per
// second. It knows the wire format of POST /generate_stream and POST /tokenize
// and nothing of this server, so that any TGI can be measured with it.
//
// Two kinds of load. A closed loop keeps a number of streams busy, each sending
// its next request when the last has ended: it finds the throughput at a
// concurrency. An open loop sends at random (Poisson) moments of a given mean
// rate, whatever the server does, and measures each request from the moment at
// which it was due: a server that stalls is charged for the requests that it
// kept waiting, which a closed loop silently leaves out (coordinated omission).
//
// Load goes to the given URL alone: redirects and proxies are not followed.
//
// The reasons behind it: docs/rationale/conformance.md.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tgi/server/client/call"
	"tgi/server/config"
)

// ErrOptions says that the options cannot be run as they are.
var ErrOptions = errors.New("invalid benchmark options")

// Limits of one Run. They keep a slip of the finger from becoming an attack.
const (
	MaxRequests    = 1_000_000
	MaxConcurrency = 4096
	MaxRate        = 100_000 // requests per second
)

// Options describe the load. The zero value of a field with a default means it.
type Options struct {
	// URL is the server's root, for example http://127.0.0.1:3000. Required.
	URL string
	// Key is sent as a bearer token when not empty.
	Key string
	// Concurrency lists the numbers of streams of the closed loop; one Run of the
	// report for each. Default: 1.
	Concurrency []int
	// Rate, when above 0, replaces the closed loop by an open one with that many
	// requests per second on average.
	Rate float64
	// Repeat replaces both: each of Requests prompts is sent twice, one after the
	// other, for one token, to compare the time to first token of a prompt that
	// the server has not seen with that of one whose prefix it may have cached.
	Repeat bool
	// Plan, when not nil, replaces all of them by a search for the highest rate at which its bounds hold; Rate is then
	// what replicas of the server are to serve together, 0 for none.
	Plan *PlanOptions
	// Beside, when above 0, has prompts of so many tokens come, Requests at most, one after the other while the streams
	// of the closed loop generate, to compare the time between two tokens with and without them.
	Beside int
	// Requests is how many each run sends. Default: 64; with Repeat 8, with Beside 3, with Plan 200 or more, so that a
	// trial lasts several times the bound.
	Requests int
	// Duration, when above 0, ends the sending of a run though Requests are not
	// reached; what was sent is waited for.
	Duration time.Duration
	// PromptTokens is the length of each prompt, special tokens included. Default: 128.
	PromptTokens int
	// OutputTokens is max_new_tokens. Default: 64; with Beside 1,024, or what the model has room for behind a prompt. A
	// model may end a text sooner: TGI's API cannot forbid that, so the report counts what came.
	OutputTokens int
	// SharedPrefix makes that many leading tokens the same in all prompts.
	// Default: 0, prompts differ from their first words on.
	SharedPrefix int
	// Warmup requests are sent one by one before the first run and not counted.
	Warmup int
	// Timeout ends a request. Default: 2 minutes.
	Timeout time.Duration
	// Seed makes the prompts and the moments of the open loop. 0 takes one from the
	// clock, so that a second benchmark does not find the first one's prompts cached.
	Seed uint64
	// Progress, when not nil, is called with a sentence about the next step.
	Progress func(string)

	transport http.RoundTripper // tests replace it
	inFlight  int               // of the open loop; tests lower it
}

// slack is how many tokens a prompt may be longer than asked for, where a tokenizer merges words.
const slack = 16

// normal returns o with defaults filled in, or ErrOptions.
func (o Options) normal() (Options, error) {
	if len(o.Concurrency) == 0 {
		o.Concurrency = []int{1}
	}
	if o.Requests == 0 {
		o.Requests = 64
		switch {
		case o.Repeat:
			o.Requests = 8
		case o.Beside > 0:
			o.Requests = 3
		case o.Plan != nil:
			o.Requests = planRequests
		}
	}
	if o.PromptTokens == 0 {
		o.PromptTokens = 128
	}
	if o.OutputTokens == 0 {
		o.OutputTokens = 64
		if o.Beside > 0 {
			o.OutputTokens = 1024
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.inFlight == 0 {
		o.inFlight = MaxConcurrency
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if _, err := call.Address(o.URL); err != nil {
		return o, fmt.Errorf("%w: url must be like http://host:port. Given: %q", ErrOptions, config.Shown(o.URL))
	}
	for _, c := range o.Concurrency {
		if c < 1 || c > MaxConcurrency {
			return o, fmt.Errorf("%w: concurrency must be > 0 and <= %d. Given: %d", ErrOptions, MaxConcurrency, c)
		}
	}
	if !(o.Rate >= 0 && o.Rate <= MaxRate) {
		return o, fmt.Errorf("%w: rate must be >= 0 and <= %d. Given: %v", ErrOptions, MaxRate, o.Rate)
	}
	for _, f := range []struct {
		name     string
		v, least int
		most     int
	}{
		{"requests", o.Requests, 1, MaxRequests},
		{"warmup", o.Warmup, 0, MaxRequests},
		{"prompt tokens", o.PromptTokens, 1, 1 << 20},
		{"output tokens", o.OutputTokens, 1, 1 << 20},
		{"shared prefix", o.SharedPrefix, 0, o.PromptTokens},
		{"tokens of a prompt beside streams", o.Beside, 0, 1 << 20},
	} {
		if f.v < f.least || f.v > f.most {
			return o, fmt.Errorf("%w: %s must be >= %d and <= %d. Given: %d", ErrOptions, f.name, f.least, f.most, f.v)
		}
	}
	if o.Duration < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("%w: durations must be positive. Given: duration %v, timeout %v", ErrOptions, o.Duration,
			o.Timeout)
	}
	if o.Plan != nil {
		if err := o.Plan.check(); err != nil {
			return o, err
		}
		if least := o.Plan.trial(); o.Duration > 0 && o.Duration < least {
			return o, fmt.Errorf("%w: duration must be >= %v, which trials of the plan take. Given: %v", ErrOptions, least,
				o.Duration)
		}
	}
	if o.Repeat && (o.Rate > 0 || o.Plan != nil) {
		return o, fmt.Errorf("%w: repeat and a rate or a plan exclude each other", ErrOptions)
	}
	if o.Beside != 0 && (o.Repeat || o.Rate > 0 || o.Plan != nil || o.Duration > 0) {
		return o, fmt.Errorf("%w: prompts beside streams exclude repeat, a rate, a duration and a plan", ErrOptions)
	}
	return o, nil
}

// Run measures the server at o.URL. It returns ErrOptions for settings it can't
// run, and an error when the prompts cannot be made because the server does not
// answer; requests that fail later are counted in the report instead. When ctx
// ends, requests under way are broken off, and the report so far comes with
// ctx's error.
func Run(ctx context.Context, o Options) (Report, error) {
	fit := o.OutputTokens == 0 && o.Beside > 0
	o, err := o.normal()
	if err != nil {
		return Report{}, err
	}
	c := newClient(o)
	defer c.http.CloseIdleConnections()
	if fit {
		if most := c.most(ctx); most > 0 {
			o.OutputTokens = max(1, min(o.OutputTokens, most-o.PromptTokens-slack))
		}
	}
	report := Report{
		URL: config.Shown(o.URL), PromptTokens: o.PromptTokens, OutputTokens: o.OutputTokens,
		SharedPrefix: o.SharedPrefix, Seed: o.Seed,
	}
	prompts, err := calibrate(ctx, c, o)
	if err != nil {
		return report, fmt.Errorf("making prompts: %w", err)
	}
	g := &generator{client: c, prompts: prompts, o: o}
	for range o.Warmup {
		g.send(ctx, time.Now(), prompts.next(), o.OutputTokens)
	}
	switch {
	case o.Plan != nil:
		g.plan(ctx, &report)
	case o.Repeat:
		report.Repeat = g.repeat(ctx)
	case o.Beside > 0:
		report.Beside, err = g.besides(ctx)
		if err != nil {
			return report, err
		}
	case o.Rate > 0:
		o.Progress(fmt.Sprintf("%d requests at %g per second", o.Requests, o.Rate))
		report.Runs = append(report.Runs, g.open(ctx))
	default:
		for _, n := range o.Concurrency {
			o.Progress(fmt.Sprintf("%d requests over %d streams", o.Requests, n))
			report.Runs = append(report.Runs, g.closed(ctx, n))
			if ctx.Err() != nil {
				break
			}
		}
	}
	return report, ctx.Err()
}

// Completed reports whether any request of the report was answered in full.
func (r *Report) Completed() bool {
	return r.Repeat != nil && r.Repeat.Cached.Count > 0 || len(r.Beside) > 0 ||
		slices.ContainsFunc(r.Runs, func(run Measured) bool { return run.Completed > 0 })
}
