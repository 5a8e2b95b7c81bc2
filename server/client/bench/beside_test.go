package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBeside: streams have a token every 10 ms, every 25 ms while a long prompt is computed, which takes 400 ms, and
// 200 alone.
func TestBeside(t *testing.T) {
	const long = 200
	synctest.Test(t, func(t *testing.T) {
		var computing, streams atomic.Int64
		f := &fake{most: 99}
		f.stream = func(w io.Writer, n int, prompt string) {
			if len(f.tokens(prompt)) == long {
				computing.Add(1)
				defer computing.Add(-1)
				steady(1, time.Duration(1+min(streams.Load(), 1))*200*time.Millisecond, 0)(w, n, prompt)
				return
			}
			streams.Add(1)
			defer streams.Add(-1)
			for i := range 1024 {
				gap := 10 * time.Millisecond
				if computing.Load() > 0 {
					gap = 25 * time.Millisecond
				}
				time.Sleep(gap)
				if _, err := fmt.Fprintf(w, "data: %s\n\n", token(i)); err != nil {
					return
				}
			}
		}
		o := options(f)
		o.Beside, o.Concurrency = long, []int{1, 3}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until the streams have noticed that nobody reads them
		if len(r.Beside) != 2 || !r.Completed() {
			t.Fatalf("%+v", r)
		}
		for i, d := range r.Beside {
			if d.Streams != o.Concurrency[i] || d.Prompts != 3 || d.PromptTokens != long {
				t.Errorf("%+v", d)
			}
			if d.Without.P99 != 10 || d.Without.Count < 3*d.Streams*(quiet-settling-2) {
				t.Errorf("without a prompt %+v", d.Without)
			}
			// All streams have their tokens at the same time, however many they are.
			if d.Without.Count > 3*d.Streams*(quiet+2) {
				t.Errorf("%d gaps without a prompt of %d streams", d.Without.Count, d.Streams)
			}
			// One of the about 16 gaps in each prompt began before it.
			if d.With.P99 != 25 || d.With.P50 != 25 || d.With.Count < 3*14*d.Streams || d.With.Count > 3*18*d.Streams {
				t.Errorf("beside a prompt %+v", d.With)
			}
			if d.FirstToken.P50 != 400 || d.Alone.P50 != 200 {
				t.Errorf("first token %+v, alone %+v", d.FirstToken, d.Alone)
			}
		}
		var table strings.Builder
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"3 of 200", "2.5", "400"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("no %q in\n%s", want, table.String())
			}
		}
	})
}

// TestBesideManyStreams: the default output lasts for any number of streams.
func TestBesideManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99}
		f.stream = func(w io.Writer, n int, prompt string) {
			if len(f.tokens(prompt)) == 200 {
				steady(1, 300*time.Millisecond, 0)(w, n, prompt)
				return
			}
			steady(1024, 10*time.Millisecond, 10*time.Millisecond)(w, n, prompt)
		}
		o := options(f)
		o.Beside, o.Concurrency = 200, []int{40}
		r, err := Run(t.Context(), o)
		if err != nil || len(r.Beside) != 1 || r.Beside[0].Prompts != 3 {
			t.Errorf("%+v, %v", r.Beside, err)
		}
		time.Sleep(time.Minute) // until the streams have noticed that nobody reads them
	})
}

// TestBesideStreamsThatHang: a server that accepts streams and sends nothing ends the measurement.
func TestBesideStreamsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99}
		over := make(chan struct{})
		f.stream = func(w io.Writer, n int, prompt string) {
			if len(f.tokens(prompt)) == 200 {
				steady(1, 300*time.Millisecond, 0)(w, n, prompt)
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", token(0))
			<-over
		}
		o := options(f)
		o.Beside, o.Timeout = 200, 5*time.Second
		begin := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		_, err := Run(ctx, o)
		close(over)
		if err == nil || !strings.Contains(err.Error(), "a stream has had no 60 tokens within 5s") {
			t.Error(err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestBesideStreamsThatEnd: streams that do not last as long as a prompt begin anew, and what their beginning takes is
// no gap between tokens, neither theirs nor that of another stream.
func TestBesideStreamsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99, total: 20 + slack + 40}
		var beginning atomic.Int64
		f.stream = func(w io.Writer, n int, prompt string) {
			if len(f.tokens(prompt)) == 200 {
				steady(1, 900*time.Millisecond, 0)(w, n, prompt)
				return
			}
			beginning.Add(1)
			time.Sleep(time.Duration(50+n%3*30) * time.Millisecond)
			beginning.Add(-1)
			for i := range 40 {
				fmt.Fprintf(w, "data: %s\n\n", token(i))
				gap := 10 * time.Millisecond
				if beginning.Load() > 0 {
					gap = 25 * time.Millisecond
				}
				time.Sleep(gap)
			}
			fmt.Fprintf(w, "data: %s\n\n", final(40, 20))
		}
		o := options(f)
		o.Beside, o.Concurrency = 200, []int{2}
		r, err := Run(t.Context(), o)
		if err != nil || len(r.Beside) != 1 || r.Beside[0].Prompts != 3 || r.Beside[0].FirstToken.Count != 3 {
			t.Fatalf("%+v, %v", r.Beside, err)
		}
		time.Sleep(time.Minute) // until the streams have noticed that nobody reads them
		d := r.Beside[0]
		if d.Without.Count == 0 || d.Without.P50 != 10 || d.Without.Max != 10 || d.With.Count < 100 ||
			d.With.Max != 25 {
			t.Errorf("without a prompt %+v, beside one %+v", d.Without, d.With)
		}
		if len(f.outputs) < 10 || r.OutputTokens != 40 {
			t.Errorf("%d endless streams of %d tokens", len(f.outputs), r.OutputTokens)
		}
		for _, n := range f.outputs {
			if n != 40 {
				t.Errorf("max_new_tokens %d, want what the model has room for", n)
			}
		}
	})
}

// TestBesideStreamsRefused: a stream that the server refuses is an error with the server's reason.
func TestBesideStreamsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99}
		f.stream = func(w io.Writer, n int, prompt string) {
			if len(f.tokens(prompt)) == 200 {
				steady(1, 300*time.Millisecond, 0)(w, n, prompt)
				return
			}
			fmt.Fprint(w, `data: {"error":"no room","error_type":"validation"}`+"\n\n")
		}
		o := options(f)
		o.Beside = 200
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "failed: validation: no room") {
			t.Error(err)
		}
	})
}
