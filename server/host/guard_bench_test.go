package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/models/store"
	"tgi/runtime/engine"
	"tgi/server/config"
)

// openMeasured opens a server without TGI_VERIFY's checks, whose model is the 135M shape with random weights in int4,
// which the cache holds after the first time, or TGI_BENCH_MODEL. o, if any, observes its steps.
func openMeasured(b *testing.B, o engine.Observer, change func(*config.Config)) *plugged {
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
	if change != nil {
		change(&cfg)
	}
	h, err := Open(b.Context(), Options{Config: cfg, Version: "dev", Observer: o,
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
	return &plugged{h, ts.URL}
}

// measured is a way to ask for texts: further parameters of /generate.
type measured struct{ name, more string }

// inTurns asks for the texts of several streams in each way, one way after the other, and returns the tokens per second
// of each round by the way's name. No way is always first. ended, if any, is told of each end: first, with "", of texts
// that do not count.
func (p *plugged) inTurns(b *testing.B, streams, tokens int, ways []measured,
	ended func(way string)) map[string][]float64 {
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
	for _, w := range ways {
		if run(w.more); b.Failed() {
			b.Fatal(w.name)
		}
	}
	if ended != nil {
		ended("")
	}
	rates := map[string][]float64{}
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			rates[w.name] = append(rates[w.name], run(w.more))
			if ended != nil {
				ended(w.name)
			}
		}
	}
	return rates
}

// compared is the median over rounds of f of a way's rate and another's.
func compared(rates map[string][]float64, way, to string, f func(way, to float64) float64) float64 {
	var list []float64
	for round, rate := range rates[way] {
		list = append(list, f(rate, rates[to][round]))
	}
	return median(list)
}

// BenchmarkIdleGuard reports what each built-in guard, which reads every token and finds nothing, adds to a step: in
// percent of the step without one and in microseconds. A guard is asked between the forward pass and the next step, so
// it is the time of steps but for their forward passes that is compared: those vary with what else the machine does by
// more than a guard can cost. Streams with and without one take turns. Of each way it is the median of a round's steps,
// and with "quiet" the fastest tenth, which waited for no processor; over the rounds it is the median of the
// differences. "again" is without a guard, too: what it adds is noise. late-% is how many of the sequences' steps did
// not wait for their guard any longer. Sub-benchmarks are named after the number of streams and of tokens of each.
func BenchmarkIdleGuard(b *testing.B) {
	guards := []string{"banned-strings", "redact", "loop-breaker"}
	times := &stepTimes{}
	p := openMeasured(b, times, func(c *config.Config) {
		for _, name := range guards {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Kind: config.KindGuard, Source: "builtin:" + name})
		}
	})
	ways := []measured{
		{"none", ""},
		{"again", ""},
		{"banned-strings", `,"plugins":[{"name":"banned-strings","params":{"strings":["zqxzqxzqx","qqzzqqzz"]}}]`},
		{"redact", `,"plugins":[{"name":"redact"}]`},
		{"loop-breaker", `,"plugins":[{"name":"loop-breaker"}]`},
	}
	whole := func(r engine.Report) time.Duration { return r.Total }
	own := func(r engine.Report) time.Duration { return r.Total - r.Forward }
	for _, size := range [][2]int{{1, 128}, {16, 128}} {
		b.Run(fmt.Sprintf("%d/%d", size[0], size[1]), func(b *testing.B) {
			times.of(size[0])
			var rest, total [2]map[string][]float64 // of the median, and the fastest tenth
			for i := range rest {
				rest[i], total[i] = map[string][]float64{}, map[string][]float64{}
			}
			late := map[string][]float64{}
			rates := p.inTurns(b, size[0], size[1], ways, func(way string) {
				steps := times.take()
				switch {
				case way == "":
					return
				case len(steps) < size[1]/4:
					b.Fatalf("%s: %d steps of all streams together", way, len(steps))
				}
				waited := 0
				for _, r := range steps {
					waited += r.Late
				}
				late[way] = append(late[way], 100*float64(waited)/float64(len(steps)*size[0]))
				for i, part := range []int{2, 10} {
					at := func(list []float64) float64 { slices.Sort(list); return list[len(list)/part] }
					rest[i][way] = append(rest[i][way], at(eachMS(steps, own)))
					total[i][way] = append(total[i][way], at(eachMS(steps, whole)))
				}
			})
			for i, name := range []string{"", "quiet-"} {
				step := median(slices.Clone(total[i]["none"]))
				b.ReportMetric(step, name+"ms/step-none")
				for _, w := range ways[1:] {
					adds := compared(rest[i], w.name, "none", func(way, to float64) float64 { return way - to })
					b.ReportMetric(100*adds/step, name+"%-"+w.name)
					b.ReportMetric(1000*adds, name+"µs-"+w.name)
				}
			}
			for _, w := range ways[2:] {
				b.ReportMetric(median(late[w.name]), "late-%-"+w.name)
			}
			b.ReportMetric(median(rates["none"]), "tok/s-none")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkExplain reports the tokens per second of streams without `explain`, with it, with two plugins that change
// the distribution of each token, and with these and `explain`, which then tells of both; and the milliseconds that
// explaining adds to each token of a stream, in the same rounds, medians of all. "again" is without `explain`, too:
// what it adds is noise.
func BenchmarkExplain(b *testing.B) {
	p := openMeasured(b, nil, func(c *config.Config) {
		for _, language := range []string{"c", "rust"} {
			c.Plugin = append(c.Plugin, boosting(language, language))
		}
	})
	const explain = `,"explain":{"tokens":128}`
	const plugins = `,"plugins":[{"name":"c","params":{"boost":{"#98":0.5}}},` +
		`{"name":"rust","params":{"boost":{"#99":-0.5}}}]`
	ways := []measured{{"off", ""}, {"again", ""}, {"on", explain}, {"plugins", plugins},
		{"plugins-on", plugins + explain}}
	for _, size := range [][2]int{{1, 128}, {16, 128}} {
		b.Run(fmt.Sprintf("%d/%d", size[0], size[1]), func(b *testing.B) {
			rates := p.inTurns(b, size[0], size[1], ways, nil)
			for _, w := range ways {
				b.ReportMetric(median(rates[w.name]), "tok/s-"+w.name)
			}
			adds := func(way, to float64) float64 { return 1000 * float64(size[0]) * (1/way - 1/to) }
			b.ReportMetric(compared(rates, "again", "off", adds), "ms/token-again")
			b.ReportMetric(compared(rates, "on", "off", adds), "ms/token-on")
			b.ReportMetric(compared(rates, "plugins-on", "plugins", adds), "ms/token-plugins-on")
			b.ReportMetric(0, "ns/op")
		})
	}
}
