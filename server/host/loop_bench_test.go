package host

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// BenchmarkStreams reports the tokens per second of 16 requests at once without
// and with a plugin that answers with a sparse bias at every step, in turn; ratio
// is with over without in the same round. TGI_BENCH_MODEL is the folder of another
// model than the demo (whose steps are a tenth of a real one's), run in int4.
func BenchmarkStreams(b *testing.B) {
	for _, language := range []string{"c", "rust", "assemblyscript", "go"} {
		b.Run(language, func(b *testing.B) {
			p := openPlugged(b, func(c *config.Config) {
				if c.Model.Path = os.Getenv("TGI_BENCH_MODEL"); c.Model.Path != "" {
					c.Model.Weights = config.WeightsInt4
				}
			})
			wasm, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", language,
				"banned-and-boost.wasm"))
			if err != nil {
				b.Fatal(err)
			}
			p.upload(b, "boost", wasm)
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
			for b.Loop() {
				a, c := run(""), run(`,"plugins":[{"name":"boost","params":{"boost":{"#98":0.5,"#99":-0.5}}}]`)
				without, with, ratios = append(without, a), append(with, c), append(ratios, c/a)
			}
			b.ReportMetric(median(without), "tok/s-without")
			b.ReportMetric(median(with), "tok/s-with")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
