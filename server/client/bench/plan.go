package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"tgi/server/client/terminal"
)

// PlanOptions say what a fleet of replicas has to do.
type PlanOptions struct {
	// P99 is what the 99th percentile of whole requests may be, FirstTokenP99 that of their first tokens; 0 is no
	// bound, and one of them has a value.
	P99, FirstTokenP99 time.Duration
}

// planRequests is how many requests a trial of a plan sends at least: of 200, two may be slower than the 99th
// percentile.
const planRequests = 200

// A trial lasts planBounds times the bound, within planShortest and planLongest, so that requests which the server
// does not keep up with have the time to wait for longer than the bound. Rates at which that takes more than
// planMost requests are not tried. A rate is kept up with when the server serves planKeptUp of it.
const (
	planBounds   = 4
	planShortest = 5 * time.Second
	planLongest  = time.Minute
	planMost     = 50_000
	planKeptUp   = 0.95
)

// The search for the highest rate ends when what holds and what does not are within planRatio, or after planTrials. It
// gives up below 1/planFloor of what the server can do.
const (
	planRatio  = 1.1
	planTrials = 12
	planFloor  = 64
	planLoad   = 16 // streams of the run that shows what the server can do
)

// Plan says how many replicas of the measured server are needed.
type Plan struct {
	P99        float64 `json:"p99_ms,omitempty"`
	FirstToken float64 `json:"ttft_p99_ms,omitempty"`
	// Throughput is what the server does of a closed loop, whatever the times.
	Throughput float64 `json:"throughput_requests_per_s"`
	// PerReplica is the highest rate that was tried at which the bounds held; 0 where none did.
	PerReplica float64 `json:"requests_per_s_per_replica"`
	// Missed is the lowest rate that was tried at which they did not; 0 where all held.
	Missed float64 `json:"missed_at_requests_per_s,omitempty"`
	// Incomplete: the search was broken off, and the figures are those of the trials until then.
	Incomplete bool `json:"incomplete,omitempty"`
	// Rate is what all replicas together are to serve, 0 where none was asked for. Replicas are how many that takes,
	// Spare how many so that one may be down; 0 where no number is enough.
	Rate     float64 `json:"rate,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	Spare    int     `json:"replicas_with_one_down,omitempty"`
}

// check returns ErrOptions for bounds that nothing can be held to.
func (p *PlanOptions) check() error {
	if p.P99 < 0 || p.FirstTokenP99 < 0 || p.P99 == 0 && p.FirstTokenP99 == 0 {
		return fmt.Errorf("%w: a plan needs a p99 that is > 0, of requests or of first tokens. Given: %v, %v", ErrOptions,
			p.P99, p.FirstTokenP99)
	}
	return nil
}

// trial is how long rates are tried for.
func (p *PlanOptions) trial() time.Duration {
	return min(max(planBounds*max(p.P99, p.FirstTokenP99), planShortest), planLongest)
}

// sends is how many requests a trial of a rate sends, of which least are asked for.
func (p *PlanOptions) sends(rate float64, least int) int {
	return max(least, int(math.Ceil(rate*p.trial().Seconds())))
}

// holds reports whether every request of m was served, the server kept up with the rate and the bounds were kept.
func (p *PlanOptions) holds(m Measured) bool {
	within := func(s Summary, bound time.Duration) bool { return bound == 0 || s.P99 <= milliseconds(bound) }
	return m.Requests > 0 && m.Completed == m.Requests && m.KeptUp >= planKeptUp && within(m.EndToEnd, p.P99) &&
		within(m.FirstToken, p.FirstTokenP99)
}

// plan finds the rate at which the bounds hold: it measures what the server can do in a closed loop, then tries half
// of it in an open one, goes up or down by factors of two until a rate that holds and one that does not are known, and
// halves what is between them. Every run is in the report.
func (g *generator) plan(ctx context.Context, r *Report) {
	first := g.closed(ctx, planLoad)
	r.Runs = append(r.Runs, first)
	r.Plan = search(ctx, *g.o.Plan, first.RequestsPerSecond, func(rate float64) Measured {
		one := *g
		one.o.Rate, one.o.Requests = rate, g.o.Plan.sends(rate, g.o.Requests)
		g.o.Progress(fmt.Sprintf("%d requests at %.4g per second", one.o.Requests, rate))
		m := one.open(ctx)
		r.Runs = append(r.Runs, m)
		return m
	})
	r.Plan.Incomplete = ctx.Err() != nil
	r.Plan.need(g.o.Rate)
}

// search is plan without a server.
func search(ctx context.Context, o PlanOptions, throughput float64, try func(rate float64) Measured) *Plan {
	p := &Plan{P99: milliseconds(o.P99), FirstToken: milliseconds(o.FirstTokenP99), Throughput: throughput}
	rate, most := throughput/2, min(MaxRate, planMost/o.trial().Seconds())
	for range planTrials {
		if rate <= throughput/planFloor || rate > most || ctx.Err() != nil {
			break
		}
		m := try(rate)
		if ctx.Err() != nil {
			break // it was broken off
		}
		if o.holds(m) {
			p.PerReplica = rate
		} else {
			p.Missed = rate
		}
		switch {
		case p.Missed == 0:
			rate *= 2
		case p.PerReplica == 0:
			rate /= 2
		case p.Missed/p.PerReplica <= planRatio:
			return p
		default:
			rate = (p.PerReplica + p.Missed) / 2
		}
	}
	return p
}

// need says how many replicas a rate takes. Random requests that a router deals out are random requests at each
// replica, at a part of the rate: what held for one holds for all.
func (p *Plan) need(rate float64) {
	if p.Rate = rate; rate == 0 || p.PerReplica == 0 || p.Incomplete {
		return
	}
	p.Replicas = max(1, int(math.Ceil(rate/p.PerReplica)))
	p.Spare = p.Replicas + 1
}

// WriteText writes the plan for people.
func (p *Plan) WriteText(w io.Writer) error {
	var bounds []string
	if p.P99 > 0 {
		bounds = append(bounds, fmt.Sprintf("p99 of requests within %s ms", number(p.P99)))
	}
	if p.FirstToken > 0 {
		bounds = append(bounds, fmt.Sprintf("p99 of first tokens within %s ms", number(p.FirstToken)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", strings.Join(bounds, ", "))
	switch {
	case p.Incomplete && p.PerReplica == 0:
		b.WriteString("incomplete: broken off before a rate held\n")
	case p.Incomplete:
		fmt.Fprintf(&b, "incomplete: broken off; %s requests/s held so far\n", number(p.PerReplica))
	case p.PerReplica == 0 && p.Missed == 0:
		b.WriteString("no rate was tried: the server answered no request, or more than can be sent here\n")
	case p.PerReplica == 0:
		fmt.Fprintf(&b, "holds at no rate that was tried, down to %s/s: more replicas do not help\n", number(p.Missed))
	case p.Missed == 0:
		fmt.Fprintf(&b, "one replica: at least %s requests/s, which is the most that was tried\n", number(p.PerReplica))
	default:
		fmt.Fprintf(&b, "one replica: %s requests/s (missed at %s; %d streams made %s)\n",
			number(p.PerReplica), number(p.Missed), planLoad, number(p.Throughput))
	}
	if p.Replicas > 0 {
		fmt.Fprintf(&b, "%s requests/s: %s, %d so that one may be down\n", number(p.Rate),
			terminal.Count(p.Replicas, "replica"), p.Spare)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
