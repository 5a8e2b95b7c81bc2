package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server/sse"
)

func options(f *fake) Options {
	return Options{URL: "http://fake", Seed: 1, PromptTokens: 20, transport: f}
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99, stream: steady(4, 100*time.Millisecond, 20*time.Millisecond)}
		o := options(f)
		o.Concurrency, o.Requests, o.Warmup = []int{1, 2}, 6, 3
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Runs) != 2 || len(f.prompts) != 3+6+6 {
			t.Fatalf("%d runs and %d requests, want 2 and 15", len(r.Runs), len(f.prompts))
		}
		m := r.Runs[1]
		if m.Concurrency != 2 || m.Requests != 6 || m.Completed != 6 || m.Rejected != 0 || len(m.Errors) != 0 {
			t.Errorf("counts %+v", m)
		}
		if m.OutputTokens != 24 || m.InputTokens != 30 {
			t.Errorf("%d tokens out and %d in, want 24 and 30", m.OutputTokens, m.InputTokens)
		}
		// Three rounds of 160 ms.
		if m.Seconds != 0.48 || m.OutputPerSecond != 24/0.48 || m.TotalPerSecond != 54/0.48 ||
			m.RequestsPerSecond != 6/0.48 {
			t.Errorf("rates %+v", m)
		}
		for name, c := range map[string]struct {
			got   Summary
			value float64
			count int
		}{
			"first token": {m.FirstToken, 100, 6},
			"inter token": {m.InterToken, 20, 18},
			"end to end":  {m.EndToEnd, 160, 6},
		} {
			if v := c.value; c.got != (Summary{Count: c.count, Mean: v, P50: v, P90: v, P99: v, Max: v}) {
				t.Errorf("%s %+v, want %d of %v ms", name, c.got, c.count, v)
			}
		}
	})
}

func TestDurationEndsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99, stream: steady(1, time.Second, 0)}
		o := options(f)
		o.Duration, o.Requests = 2500*time.Millisecond, 1000
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Runs[0]; m.Completed != 3 || m.Seconds != 3 {
			t.Errorf("%d requests in %v s, want 3 in 3: what was sent is waited for", m.Completed, m.Seconds)
		}
	})
}

// TestOpenLoopChargesWaiting holds back all but one request: each is measured
// from the moment at which it was due.
func TestOpenLoopChargesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99, stream: steady(1, time.Second, 0)}
		o := options(f)
		o.Rate, o.Requests, o.inFlight = 1000, 5, 1
		start := time.Now()
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Runs[0]
		first := f.sent[0].Sub(start)
		for i, sent := range f.sent {
			if want := first + time.Duration(i)*time.Second; sent.Sub(start) != want {
				t.Errorf("request %d sent after %v, want %v", i, sent.Sub(start), want)
			}
		}
		// All five were due in the first few milliseconds.
		if m.Completed != 5 || m.FirstToken.Max < 4900 || m.FirstToken.Max > 5000 || m.FirstToken.P50 < 2900 ||
			m.FirstToken.P50 > 3000 {
			t.Errorf("measured %+v", m)
		}
	})
}

func TestOpenLoopIsPoisson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99, stream: steady(1, 10*time.Second, 0)} // slower than the rate: nobody waits
		o := options(f)
		o.Rate, o.Requests = 50, 2000
		start := time.Now()
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Runs[0]; m.Completed != 2000 || m.EndToEnd.Max != 10000 || m.Rate != 50 {
			t.Errorf("measured %+v", m)
		}
		// Exponential gaps: mean and standard deviation are both 1/rate.
		var sum, squares float64
		last := start
		for _, at := range f.sent {
			gap := at.Sub(last).Seconds() * 50
			sum, squares, last = sum+gap, squares+gap*gap, at
		}
		mean := sum / 2000
		if deviation := math.Sqrt(squares/2000 - mean*mean); math.Abs(mean-1) > 0.1 || math.Abs(deviation-1) > 0.15 {
			t.Errorf("gaps with mean %.3f and deviation %.3f in units of 1/rate, want 1 and 1", mean, deviation)
		}
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		f := &fake{most: 99}
		f.stream = func(w io.Writer, n int, prompt string) {
			first := 400 * time.Millisecond
			if seen[prompt] {
				first = 30 * time.Millisecond
			}
			seen[prompt] = true
			steady(1, first, 0)(w, n, prompt)
		}
		o := options(f)
		o.Repeat, o.Requests = true, 4
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Repeat; got == nil || got.Prompts != 4 || got.Failed != 0 || got.Cold.P50 != 400 ||
			got.Cached.P50 != 30 || got.Cached.Count != 4 {
			t.Errorf("%+v", got)
		}
		if !r.Completed() {
			t.Error("the report does not count as completed")
		}
	})
}

// TestStreamFailures gives each answer and how it is counted.
func TestStreamFailures(t *testing.T) {
	data := func(s string) string { return "data: " + s + "\n\n" }
	for _, c := range []struct {
		name, body, want string
		tokens           int
	}{
		{"complete", data(token(0)) + ":\n\n" + data(final(2, 5)), "", 2},
		{"no details", data(token(0)) + data(`{"token":{"id":1},"generated_text":"x"}`), "", 2},
		{"more after the end", data(final(1, 5)) + data(token(1)), "", 1},
		{"several tokens in an event are believed", data(token(0)) + data(final(9, 5)), "", 9},
		{"old framing", "data:" + token(0) + "\n\ndata:" + final(2, 5) + "\n\n", "", 2},
		{"overloaded", data(`{"error":"Model is overloaded","error_type":"overloaded"}`), overloaded, 0},
		{"validation", data(`{"error":"Input validation error: x","error_type":"validation"}`), "validation", 0},
		{"late error", data(token(0)) + data(`{"error":"y","error_type":"generation"}`), "generation", 0},
		{"error without a type", data(`{"error":{"message":"z"}}`), "error event", 0},
		{"null error", data(`{"error":null,"token":{"id":1},"generated_text":"x"}`), "", 1},
		{"nothing", "", failIncomplete, 0},
		{"only comments", ":\n\n:\n\n", failIncomplete, 0},
		{"cut in an event", data(token(0)) + "data: " + final(2, 5), failIncomplete, 0},
		{"no JSON", data("[DONE]"), failMalformed, 0},
		{"endless event", "data: " + strings.Repeat("x", sse.MaxEvent+1), failMalformed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := 0
			if c.want == "" {
				input = 5 // what details say
			}
			if c.want == "" && !strings.Contains(c.body, "input_length") {
				input = 20 // what the prompt was made for
			}
			f := &fake{most: 99, stream: func(w io.Writer, _ int, _ string) { io.WriteString(w, c.body) }}
			o := options(f)
			o.Requests = 1
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			m := r.Runs[0]
			var got string
			for kind := range m.Errors {
				got += kind
			}
			if m.Rejected > 0 {
				got += overloaded
			}
			if m.InputTokens != input {
				t.Errorf("%d tokens in, want %d", m.InputTokens, input)
			}
			if got != c.want || m.OutputTokens != c.tokens || (m.Completed == 1) != (c.want == "") || m.Requests != 1 {
				t.Errorf("counted as %q with %d tokens (%+v), want %q with %d", got, m.OutputTokens, m, c.want,
					c.tokens)
			}
		})
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	stall := func(w io.Writer, _ int, _ string) { // keeps the connection alive, no more
		_, err := fmt.Fprintf(w, "data: %s\n\n", token(0))
		for err == nil {
			time.Sleep(150 * time.Millisecond)
			_, err = io.WriteString(w, ":\n\n")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		o := options(&fake{most: 99, stream: stall})
		o.Requests, o.Timeout = 2, time.Second
		r, err := Run(t.Context(), o)
		if m := r.Runs[0]; err != nil || m.Errors[failTimeout] != 2 || m.Seconds != 2 || r.Completed() {
			t.Errorf("error %v, measured %+v, want 2 timeouts in 2 s", err, m)
		}
		time.Sleep(time.Second) // the fake's goroutines end
	})
	for name, load := range map[string]func(o *Options){
		"closed": func(o *Options) { o.Concurrency = []int{3, 5} },
		"open":   func(o *Options) { o.Rate = 3 },
		"repeat": func(o *Options) { o.Repeat = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
			defer cancel()
			o := options(&fake{most: 99, stream: stall})
			load(&o)
			start := time.Now()
			r, err := Run(ctx, o)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 1100*time.Millisecond {
				t.Errorf("%s: error %v after %v", name, err, time.Since(start))
			}
			if len(r.Runs) > 1 || len(r.Runs) == 0 && r.Repeat == nil {
				t.Errorf("%s: report %+v, want what was under way", name, r)
			}
			time.Sleep(time.Second)
		})
	}
}

// TestWithoutKey: where a server wants a key, the error names the flag for it.
func TestWithoutKey(t *testing.T) {
	o := options(&fake{refuses: http.StatusUnauthorized})
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "status 401") ||
		!strings.Contains(err.Error(), "; --key wants one of the server's keys") {
		t.Error(err)
	}
	// One without the scope is told which.
	o = options(&fake{refuses: http.StatusForbidden, says: `{"error":"needs the scope generate","error_type":"x"}`})
	want := "status 403: needs the scope generate; --key wants one of the server's keys"
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestReasons: what the server says of failed requests is shown once for each kind, bounded and escaped.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{most: 99}
		f.stream = func(w io.Writer, n int, _ string) {
			said := "Input validation error: must be <= 1024"
			if n > 1 {
				said = `\u001b[31m` + strings.Repeat("x", 500)
			}
			fmt.Fprintf(w, `data: {"error":"%s","error_type":"validation"}`+"\n\n", said)
		}
		o := options(f)
		o.Requests, o.Concurrency = 2, []int{1, 1}
		r, err := Run(t.Context(), o)
		var table strings.Builder
		if err = errors.Join(err, r.WriteTable(&table)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"2 of 2 requests failed: validation: Input validation error: must be <= 1024\n",
			"2 of 2 requests failed: validation: \\x1b[31m" + strings.Repeat("x", 195) + "\n"} {
			if strings.Count(table.String(), want) != 1 {
				t.Errorf("no %q in\n%s", want, table.String())
			}
		}
	})
}

func TestRefusal(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"text","error_type":"x"}`:       "text",
		`{"error":{"message":"text","type":"x"}}`: "text",
		`{"error":{"code":3}}`:                    `{"code":3}`,
		" 502 Bad Gateway\n":                      "502 Bad Gateway",
		`{"detail":"text"}`:                       `{"detail":"text"}`,
		"":                                        "",
		`{"error":"` + strings.Repeat("é", 100) + `\u202e"}`: strings.Repeat("é", 100),
	} {
		if got := refusal([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, c := range []struct {
		says string
		set  func(o *Options)
	}{
		{`url must be like http://host:port. Given: "localhost:3000"`, func(o *Options) { o.URL = "localhost:3000" }},
		{"concurrency must be > 0 and <= 4096. Given: 0", func(o *Options) { o.Concurrency = []int{1, 0} }},
		{"concurrency must be > 0 and <= 4096. Given: 5000", func(o *Options) { o.Concurrency = []int{5000} }},
		{"rate must be >= 0 and <= 100000. Given: NaN", func(o *Options) { o.Rate = math.NaN() }},
		{"requests must be >= 1 and <= 1000000. Given: -1", func(o *Options) { o.Requests = -1 }},
		{"output tokens must be >= 1", func(o *Options) { o.OutputTokens = -5 }},
		{"shared prefix must be >= 0 and <= 20. Given: 21", func(o *Options) { o.SharedPrefix = 21 }},
		{"timeout -1s", func(o *Options) { o.Timeout = -time.Second }},
		{"exclude each other", func(o *Options) { o.Repeat, o.Rate = true, 1 }},
	} {
		o := options(&fake{})
		c.set(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want ErrOptions that says %q", err, c.says)
		}
	}
}
