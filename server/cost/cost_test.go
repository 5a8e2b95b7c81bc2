//go:build unix

// Package cost measures what the server adds to an engine: all of it runs, on
// connections of its own, before an engine that has each token at once.
//
//	go test ./server/cost -run '^$' -bench . -cpu 2
package cost

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/openai"
	"tgi/server/api/tgi"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// vocab bounds the stub's token ids.
const vocab = 100_000

// start serves e as server/host does, with metrics and a log.
func start(t testing.TB, e generate.Engine) net.Addr {
	l := generatetest.Limits()
	l.MaxConcurrent, l.MaxTotal, l.Vocab = 1000, 100_000, vocab
	metrics := server.NewMetrics()
	metrics.Watch(config.Limits{MaxInputTokens: l.MaxInput, MaxTotalTokens: l.MaxTotal}, func() engine.Stats {
		return engine.Stats{}
	})
	svc := generate.New(e, generatetest.Words{}, l, metrics)
	bytes := func(llm.Token) ([]byte, bool) { return []byte(" word"), true }
	models := dispatchtest.One(&dispatch.Model{ID: "stub", Service: svc, TokenBytes: bytes,
		Limits: config.Limits{MaxClientBatchSize: 1}})
	s := server.New(server.Options{
		Config: config.Default().Server,
		APIs: []server.API{
			tgi.New(tgi.Options{Models: models, Dialect: dialect.Default()}),
			openai.New(openai.Options{Models: models, Dialect: dialect.Default()}),
		},
		Healthy: e.Healthy, Metrics: metrics, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.Listener.Addr()
}

// routes are the streams that are measured; %d is the number of tokens.
var routes = []struct{ name, path, body string }{
	{"generate_stream", "/generate_stream", `{"inputs":"Hi","parameters":{"max_new_tokens":%d}}`},
	{"completions", "/v1/completions", `{"prompt":"Hi","stream":true,"max_tokens":%d}`},
}

// BenchmarkTokens streams to 1, 16 and 64 clients; an iteration is a token.
func BenchmarkTokens(b *testing.B) {
	const tokens = 1000
	for _, r := range routes {
		for _, clients := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/clients=%d", r.name, clients), func(b *testing.B) {
				address := start(b, &instant{}).String()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				before := processor(b)
				b.ReportAllocs()
				b.ResetTimer()
				for range clients {
					c, err := dial(address, r.path, fmt.Sprintf(r.body, tokens))
					if err != nil {
						b.Fatal(err)
					}
					defer c.conn.Close()
					wg.Go(func() {
						for left.Add(-tokens) > -tokens {
							if n, err := c.stream(); err != nil || n < tokens {
								b.Errorf("%d events, %v", n, err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
				b.ReportMetric(float64((processor(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/token")
			})
		}
	}
}

// processor is the processor time that the server and the clients have used,
// which says more than the clock where others use the machine too.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLatency measures, with one client, how long a token takes from the
// engine to the client, and how long a request for one token takes altogether.
func BenchmarkLatency(b *testing.B) {
	b.Run("token", func(b *testing.B) {
		e := &instant{step: make(chan struct{}), sent: make(chan time.Time, 1)}
		c, err := dial(start(b, e).String(), routes[0].path, fmt.Sprintf(routes[0].body, 5_000))
		if err != nil {
			b.Fatal(err)
		}
		defer c.conn.Close()
		var all []time.Duration
		for b.Loop() {
			if len(all)%5_000 == 0 {
				if len(all) > 0 {
					if more, err := c.event(); err != nil || more {
						b.Fatal("no end: ", err)
					}
				}
				if err := c.send(); err != nil {
					b.Fatal(err)
				}
			}
			e.step <- struct{}{}
			if more, err := c.event(); err != nil || !more {
				b.Fatal("an early end: ", err)
			}
			all = append(all, time.Since(<-e.sent))
		}
		report(b, all)
	})
	b.Run("request", func(b *testing.B) {
		c, err := dial(start(b, &instant{}).String(), routes[0].path, fmt.Sprintf(routes[0].body, 1))
		if err != nil {
			b.Fatal(err)
		}
		defer c.conn.Close()
		var all []time.Duration
		for b.Loop() {
			began := time.Now()
			if n, err := c.stream(); err != nil || n != 1 {
				b.Fatal(n, err)
			}
			all = append(all, time.Since(began))
		}
		report(b, all)
	})
}

// report gives the median and the 99th percentile of what was measured.
func report(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(all[min(len(all)-1, len(all)*p/100)].Microseconds()), fmt.Sprintf("p%d-µs", p))
	}
}

// TestStreams holds that what the benchmarks count are the tokens that the
// engine gave, on each route.
func TestStreams(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			c, err := dial(start(t, &instant{}).String(), r.path, fmt.Sprintf(r.body, 10))
			if err != nil {
				t.Fatal(err)
			}
			defer c.conn.Close()
			for range 2 { // the connection is used again
				n, err := c.stream()
				if err != nil {
					t.Fatal(err)
				}
				// OpenAI's streams end with a chunk for the reason and [DONE].
				if extra := map[string]int{"generate_stream": 0, "completions": 2}[r.name]; n != 10+extra {
					t.Errorf("%d events", n)
				}
			}
		})
	}
}
