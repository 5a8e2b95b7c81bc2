package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/generate"
)

// runEvent is an event of one of a call's runs, or why that run has no more.
type runEvent struct {
	run   int
	event generate.Event
	err   error
}

// runs are the prompts of a call while they run. They belong to one goroutine
// and must be closed.
type runs struct {
	list []*generate.Run
	// Several runs are read by a goroutine each, which stop brings to an end;
	// one is read where next is called.
	arrivals chan runEvent
	live     int
	stop     context.CancelFunc
	readers  sync.WaitGroup
}

// start begins all prompts of c or none.
func (a *API) start(ctx context.Context, c *call) (*runs, error) {
	r := &runs{live: len(c.drafts), stop: func() {}}
	for i := range c.drafts {
		run, err := c.model.Service.Start(ctx, c.drafts[i])
		if err != nil {
			r.close()
			if len(c.drafts) > 1 {
				err = fmt.Errorf("prompt[%d]: %w", i, err)
			}
			return nil, err
		}
		r.list = append(r.list, run)
	}
	if len(r.list) == 1 {
		return r, nil
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.arrivals = make(chan runEvent)
	for i, run := range r.list {
		r.readers.Go(func() { r.read(ctx, i, run) })
	}
	return r, nil
}

// read hands over what run yields.
func (r *runs) read(ctx context.Context, i int, run *generate.Run) {
	for {
		e, err := run.Next(ctx)
		select {
		case r.arrivals <- runEvent{i, e, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// next returns the next event of any run, io.EOF after the last of all, or why a
// run failed. When ctx ends it returns its cause and may be called again.
func (r *runs) next(ctx context.Context) (runEvent, error) {
	if r.arrivals == nil {
		e, err := r.list[0].Next(ctx)
		return runEvent{event: e}, err
	}
	for r.live > 0 {
		select {
		case a := <-r.arrivals:
			switch {
			case a.err == nil:
				return a, nil
			case !errors.Is(a.err, io.EOF):
				return a, fmt.Errorf("prompt[%d]: %w", a.run, a.err)
			}
			r.live--
		case <-ctx.Done():
			return runEvent{}, context.Cause(ctx)
		}
	}
	return runEvent{}, io.EOF
}

// close ends what still runs.
func (r *runs) close() {
	r.stop()
	r.readers.Wait()
	for _, run := range r.list {
		run.Close()
	}
}

// skipped are the plugins that failed and were passed over in any run.
func (r *runs) skipped() []generate.Skip {
	var all []generate.Skip
	for _, run := range r.list {
		all = append(all, run.Skipped()...)
	}
	return all
}

// dropped is what the grammar of the runs, which is the same in all, is not held to.
func (r *runs) dropped() []generate.Dropped { return r.list[0].Dropped() }

// setCompute sets the headers that every generation has.
func (a *API) setCompute(h http.Header, r *runs) {
	chars := 0
	for _, run := range r.list {
		chars += utf8.RuneCountInString(run.Request.Inputs)
	}
	h.Set("X-Compute-Type", a.options.ComputeType)
	h.Set("X-Compute-Characters", strconv.Itoa(chars))
	generate.SetUnknown(h, r.list[0].Unknown())
	generate.SetDropped(h, r.dropped())
	generate.SetSkipped(h, r.skipped())
}

// setTimings sets the headers of finished runs, summed over the prompts:
// milliseconds, except for x-compute-time, which is seconds and is chat's alone.
func (r *runs) setTimings(h http.Header, c *call, u usage) {
	var sum generate.Timings
	for _, run := range r.list {
		t := run.Timings()
		sum.Total += t.Total
		sum.Validation += t.Validation
		sum.Queue += t.Queue
		sum.Inference += t.Inference
		sum.PerToken += t.PerToken
	}
	if c.form.chat {
		h.Set("X-Compute-Time", strconv.FormatFloat(sum.Total.Seconds(), 'f', -1, 64))
	}
	for name, d := range map[string]time.Duration{
		"X-Total-Time": sum.Total, "X-Validation-Time": sum.Validation, "X-Queue-Time": sum.Queue,
		"X-Inference-Time": sum.Inference, "X-Time-Per-Token": sum.PerToken,
	} {
		h.Set(name, strconv.FormatInt(d.Milliseconds(), 10))
	}
	h.Set("X-Prompt-Tokens", strconv.Itoa(u.prompt))
	h.Set("X-Generated-Tokens", strconv.Itoa(u.completion))
}

// incomplete is err as a stream tells it.
func incomplete(err error) error {
	if errors.Is(err, generate.ErrIncomplete) {
		return server.ErrIncompleteStream
	}
	return err
}
