package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/models/store"
	"tgi/server/config"
)

// BenchmarkIdleGuard reports the tokens per second of 1 and of 16 streams beside which no guard runs, and the ratios to
// that of the same streams with each built-in guard, which reads every token and finds nothing: in turns, medians of
// all rounds. "again" is without a guard, too: what it differs from 1 is noise.
//
// The model is the 135M shape with random weights in int4, which the cache holds after the first time, or
// TGI_BENCH_MODEL.
func BenchmarkIdleGuard(b *testing.B) {
	path := os.Getenv("TGI_BENCH_MODEL")
	if path == "" {
		var err error
		if path, err = store.Random("smollm2-135m"); err != nil {
			b.Fatal(err)
		}
	}
	cfg := chatConfig()
	cfg.Runtime.Verify = false
	cfg.Model.Path, cfg.Model.Weights = path, config.WeightsInt4
	for _, name := range []string{"banned-strings", "redact", "loop-breaker"} {
		cfg.Plugin = append(cfg.Plugin, config.Plugin{Name: name, Kind: config.KindGuard, Source: "builtin:" + name})
	}
	h, err := Open(b.Context(), Options{Config: cfg, Version: "dev",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	})
	ts := httptest.NewServer(h)
	b.Cleanup(ts.Close)
	p := &plugged{h, ts.URL}
	kinds := []struct{ name, more string }{
		{"none", ""},
		{"again", ""},
		{"banned-strings", `,"plugins":[{"name":"banned-strings","params":{"strings":["zqxzqxzqx","qqzzqqzz"]}}]`},
		{"redact", `,"plugins":[{"name":"redact"}]`},
		{"loop-breaker", `,"plugins":[{"name":"loop-breaker"}]`},
	}
	for _, streams := range []int{1, 16} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			tokens := 512 / min(streams, 4)
			run := func(more string) float64 {
				began := time.Now()
				var all sync.WaitGroup
				for i := range streams {
					all.Go(func() {
						status, text := p.call(b, http.MethodPost, "/generate", fmt.Appendf(nil,
							`{"inputs":"Tell me a story.","parameters":{"details":true,"do_sample":true,"seed":%d,`+
								`"ignore_eos":true,"max_new_tokens":%d%s}}`, i+1, tokens, more))
						if status != http.StatusOK || !strings.Contains(text, `"finish_reason":"length"`) {
							b.Errorf("%d %s", status, text)
						}
					})
				}
				all.Wait()
				return float64(streams*tokens) / time.Since(began).Seconds()
			}
			for _, k := range kinds {
				if run(k.more); b.Failed() {
					b.Fatal(k.name)
				}
			}
			rates, ratios := map[string][]float64{}, map[string][]float64{}
			for round := 0; b.Loop(); round++ {
				for i := range kinds {
					k := kinds[(i+round)%len(kinds)]
					rates[k.name] = append(rates[k.name], run(k.more))
				}
				for _, k := range kinds[1:] {
					ratios[k.name] = append(ratios[k.name], rates[k.name][round]/rates["none"][round])
				}
			}
			b.ReportMetric(median(rates["none"]), "tok/s-none")
			for _, k := range kinds[1:] {
				b.ReportMetric(median(ratios[k.name]), "ratio-"+k.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
