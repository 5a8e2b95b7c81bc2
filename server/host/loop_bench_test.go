package host

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// BenchmarkStreams reports the tokens per second of 16 requests at once without and with a plugin that answers with a
// sparse bias at every step, in turn; ratio is with over without in the same round. The model is that of openMeasured.
func BenchmarkStreams(b *testing.B) {
	for _, language := range []string{"c", "rust", "assemblyscript", "go"} {
		b.Run(language, func(b *testing.B) {
			p := openMeasured(b, nil, func(c *config.Config) {
				c.Plugin = append(c.Plugin, boosting("boost", language))
			})
			const streams, tokens = 16, 200
			run := func(plugins string) float64 {
				body := fmt.Appendf(nil,
					`{"inputs":"Once upon a time","parameters":{"max_new_tokens":%d,"ignore_eos":true%s}}`, tokens,
					plugins)
				began := time.Now()
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						if status, text := p.call(b, http.MethodPost, "/generate", body); status != http.StatusOK {
							b.Errorf("%d %s", status, text)
						}
					})
				}
				wg.Wait()
				return streams * tokens / time.Since(began).Seconds()
			}
			run("")
			var without, with, ratios []float64
			const boost = `,"plugins":[{"name":"boost","params":{"boost":{"#98":0.5,"#99":-0.5}}}]`
			for i := 0; b.Loop(); i++ {
				var a, c float64
				if i%2 == 0 { // neither is always first
					a = run("")
					c = run(boost)
				} else {
					c = run(boost)
					a = run("")
				}
				without, with, ratios = append(without, a), append(with, c), append(ratios, c/a)
			}
			b.ReportMetric(median(without), "tok/s-without")
			b.ReportMetric(median(with), "tok/s-with")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// boosting is the SDK's example of a sparse bias in a language, under a name.
func boosting(name, language string) config.Plugin {
	return config.Plugin{Name: name, OnError: config.OnErrorFail, Apply: config.ApplyRequest,
		Source: filepath.Join("..", "..", "sdk", "testdata", "guests", language, "banned-and-boost.wasm")}
}
