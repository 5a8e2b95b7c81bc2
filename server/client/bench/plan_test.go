package bench

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a server whose p99 grows as a queue's does: the time of one request, through what is left of a capacity.
func queue(capacity float64, one time.Duration) func(float64) Measured {
	return func(rate float64) Measured {
		m := Measured{Requests: 100, Completed: 100, Rate: rate, KeptUp: 1}
		if rate >= capacity {
			m.Completed, m.Rejected = 90, 10
		}
		ms := milliseconds(one) / max(0.001, 1-rate/capacity)
		m.EndToEnd, m.FirstToken = Summary{P99: ms}, Summary{P99: ms / 2}
		return m
	}
}

// TestSearch: the rate that is found holds, and one a little higher does not.
func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       PlanOptions
		from    float64 // the throughput of the closed loop
		highest float64 // the exact answer
	}{
		{"half of the capacity", PlanOptions{P99: 20 * time.Millisecond}, 90, 50},
		{"near it", PlanOptions{P99: 100 * time.Millisecond}, 100, 90},
		{"far below it", PlanOptions{P99: 11 * time.Millisecond}, 100, 100 - 1000./11},
		{"first tokens", PlanOptions{FirstTokenP99: 20 * time.Millisecond}, 100, 75},
		{"both: the stricter counts", PlanOptions{P99: 20 * time.Millisecond, FirstTokenP99: time.Hour}, 100, 50},
		{"refusals miss every bound", PlanOptions{P99: time.Hour}, 30, 100},
	} {
		p := search(t.Context(), c.o, c.from, queue(100, 10*time.Millisecond))
		if p.PerReplica > c.highest || p.PerReplica < c.highest/planRatio/1.01 {
			t.Errorf("%s: %v, want a little below %v", c.name, p.PerReplica, c.highest)
		}
	}
	p := search(t.Context(), PlanOptions{P99: time.Millisecond}, 100, queue(100, 10*time.Millisecond))
	if p.PerReplica != 0 || p.Missed == 0 {
		t.Errorf("what never holds: %+v", p)
	}
	p = search(t.Context(), PlanOptions{P99: time.Millisecond}, 0, func(float64) Measured { panic("tried") })
	if p.PerReplica != 0 {
		t.Errorf("a server that serves nothing: %+v", p)
	}
	ctx, stop := context.WithCancel(t.Context())
	p = search(ctx, PlanOptions{P99: time.Hour}, 100, func(float64) Measured { stop(); return Measured{} })
	if p.Missed != 0 {
		t.Errorf("a trial that was broken off counts: %+v", p)
	}
}

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		each, rate float64
		want       int
	}{{50, 200, 4}, {50, 201, 5}, {50, 1, 1}, {0, 10, 0}, {50, 0, 0}} {
		p := &Plan{PerReplica: c.each}
		if p.need(c.rate); p.Replicas != c.want || c.want > 0 && p.Spare != c.want+1 {
			t.Errorf("%v at %v each: %d, %d, want %d", c.rate, c.each, p.Replicas, p.Spare, c.want)
		}
	}
	var b strings.Builder
	p := &Plan{P99: 500, PerReplica: 50, Missed: 54, Throughput: 90}
	p.need(201)
	if err := p.WriteText(&b); err != nil || !strings.Contains(b.String(), "201 requests/s: 5 replicas, 6 so that one") ||
		!strings.Contains(b.String(), "50.0 requests/s (missed at 54.0; 16 streams made 90.0)") {
		t.Errorf("%s %v", b.String(), err)
	}
}

// TestPlan: of a server that takes ten seconds for each request, however many come, replicas do not help those who want
// nine, and those who want eleven get nearly all that the 64 requests which are sent at a time allow.
func TestPlan(t *testing.T) {
	for bound, holds := range map[time.Duration]bool{9 * time.Second: false, 11 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			o := options(&fake{most: 99, stream: steady(1, 10*time.Second, 0)})
			o.Plan, o.Rate, o.inFlight = &PlanOptions{P99: bound}, 5, 64
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range r.Runs {
				if m.Completed < planRequests || m.Concurrency == 0 != (i > 0) {
					t.Errorf("run %d: %+v", i, m)
				}
			}
			p := r.Plan
			if holds != (p.PerReplica > 3 && p.PerReplica < 6.5) || !holds && p.PerReplica > 0 || p.Missed == 0 ||
				p.Replicas > 0 != holds || p.Rate != 5 || p.Incomplete {
				t.Errorf("within %s: %+v", bound, p)
			}
		})
	}
	for _, c := range []Options{
		{Plan: &PlanOptions{}}, {URL: "http://fake", Duration: time.Second, Plan: &PlanOptions{P99: time.Second}},
	} {
		if _, err := c.normal(); !errors.Is(err, ErrOptions) {
			t.Errorf("a plan without a bound, or with less time than a trial takes: %v", err)
		}
	}
}

// oneByOne is a server that serves one request at a time, rate of them per second.
func oneByOne(rate float64) *fake {
	turn := make(chan struct{}, 1)
	return &fake{most: 99, stream: func(w io.Writer, n int, prompt string) {
		turn <- struct{}{}
		defer func() { <-turn }()
		steady(1, time.Duration(float64(time.Second)/rate), 0)(w, n, prompt)
	}}
}

// TestPlanCapacity: a burst that is over before the bound is no rate that holds, however few requests are asked for and
// however long they may take.
func TestPlanCapacity(t *testing.T) {
	for _, bound := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			o := options(oneByOne(70))
			o.Plan, o.Rate, o.Requests = &PlanOptions{P99: bound}, 200, 40
			r, err := Run(t.Context(), o)
			if p := r.Plan; err != nil || p.PerReplica < 50 || p.PerReplica > 80 || p.Missed == 0 || p.Replicas < 3 {
				t.Errorf("within %s: %+v, %v", bound, p, err)
			}
		})
	}
}

// TestPlanBrokenOff: a plan whose search was broken off says so, and names no number of replicas.
func TestPlanBrokenOff(t *testing.T) {
	for after, want := range map[time.Duration]string{
		time.Second:      "incomplete: broken off before a rate held\n",
		15 * time.Second: "incomplete: broken off; 70.0 requests/s held so far\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(oneByOne(70))
			o.Plan, o.Rate = &PlanOptions{P99: time.Second}, 200
			ctx, stop := context.WithTimeout(t.Context(), after)
			defer stop()
			r, err := Run(ctx, o)
			time.Sleep(time.Minute) // until the fake has served what waits
			var b strings.Builder
			if werr := r.WriteTable(&b); err == nil || werr != nil || !strings.HasSuffix(b.String(), want) {
				t.Errorf("after %s: %v %v\n%s", after, err, werr, b.String())
			}
		})
	}
}
