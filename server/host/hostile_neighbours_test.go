package host

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// BenchmarkNeighbours reports the gaps between the tokens of three streams, in turn undisturbed, beside requests whose
// plugin does nothing, and beside requests whose plugin does harm: one after the other, as fast as they go. ratio is
// the 99th percentile over the undisturbed one of the same round; it should stay below 2.
//
// Plugins that do harm are of kind logits ("x-"), guards ("guard-") and programs ("program-"); "program-plain" is one
// that writes its text and does none. "sleep" are programs of another client that wait all at the same time for their
// turn with the model, of which they have at least one row.
func BenchmarkNeighbours(b *testing.B) {
	p := openPlugged(b, func(c *config.Config) { c.Runtime.Verify = false })
	offences, guards := offences(), guardOffences()
	p.upload(b, "nothing", newModule("").wasm())
	b.Run("nothing", func(b *testing.B) { p.besides(b, "nothing", `{}`) })
	for _, name := range slices.Sorted(maps.Keys(offences)) {
		p.upload(b, slug(name), offences[name].m.wasm())
		b.Run(slug(name), func(b *testing.B) { p.besides(b, slug(name), `{"harm":1}`) })
	}
	for _, name := range slices.Sorted(maps.Keys(guards)) {
		guard := strings.Replace(slug(name), "x-", "guard-", 1)
		p.upload(b, guard, guards[name].m.wasm())
		b.Run(guard, func(b *testing.B) { p.besides(b, guard, `{"harm":1}`) })
	}
	wasm, err := os.ReadFile("testdata/hostile.wasm")
	if err != nil {
		b.Fatal(err)
	}
	p.upload(b, "hostile", wasm)
	program := func(name, params string) {
		b.Run("program-"+strings.ReplaceAll(name, " ", "-"), func(b *testing.B) { p.besides(b, "hostile", params) })
	}
	program("plain", `{"do":"plain"}`)
	for _, what := range slices.Sorted(maps.Keys(hostilePrograms)) {
		program(what, fmt.Sprintf(`{"do":%q}`, what))
	}
	for _, what := range []string{"append", "fork", "one", "prefix", "prefix deep", "prefix known",
		"render", "row", "stay", "top"} {
		program("deaf "+what, fmt.Sprintf(`{"do":%q,"deaf":"yes"}`, what))
	}
	b.Run("sleep-1000", func(b *testing.B) { besideSleepers(b, 1000) })
}

// gap is the 99th percentile of the gaps of three streams while act is called again and again, for two seconds.
func (p *plugged) gap(b *testing.B, act func()) time.Duration {
	nb := p.watchNeighbours(b, 3)
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		act()
	}
	_, p99, _ := nb.end()
	return p99
}

// rest is an act that does nothing.
func rest() { time.Sleep(50 * time.Millisecond) }

// besides measures gaps beside requests with a plugin.
func (p *plugged) besides(b *testing.B, plugin, params string) {
	compare(b, func() (alone, beside time.Duration) {
		return p.gap(b, rest), p.gap(b, func() { p.generate(b, 20, plugin, params) })
	})
}

// compare reports what rounds measure.
func compare(b *testing.B, round func() (alone, beside time.Duration)) {
	var alone, beside, ratios []float64
	for b.Loop() {
		quiet, with := round()
		alone, beside = append(alone, quiet.Seconds()*1e3), append(beside, with.Seconds()*1e3)
		ratios = append(ratios, with.Seconds()/quiet.Seconds())
	}
	b.ReportMetric(median(alone), "ms-alone-p99")
	b.ReportMetric(median(beside), "ms-beside-p99")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op")
}

// besideSleepers measures gaps beside n programs that sleep.
func besideSleepers(b *testing.B, n int) {
	p := openPlugged(b, func(c *config.Config) {
		c.Runtime.Verify = false
		c.Limits.MaxConcurrentRequests = 8*n + 64
		c.Limits.MaxBatchSize = 4
		c.Plugin = append(c.Plugin, config.Plugin{Name: "hostile", Source: "testdata/hostile.wasm",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	compare(b, func() (alone, beside time.Duration) {
		alone = p.gap(b, rest)
		wake := p.sleepers(b, n)
		beside = p.gap(b, rest)
		wake()
		p.quiet(b)
		return alone, beside
	})
}

// sleepers starts n programs of another client, waits until they wait for the model, and returns what ends them.
func (p *plugged) sleepers(b *testing.B, n int) (wake func()) {
	b.Helper()
	away := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := http.Client{Transport: &http.Transport{DialContext: away.DialContext}}
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	wake = func() {
		cancel()
		all.Wait()
		client.CloseIdleConnections()
	}
	for range n {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/generate", strings.NewReader(
				`{"inputs":"Once upon a time","parameters":{"max_new_tokens":150,"plugins":`+do("sleep")+`}}`))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := client.Do(req)
			if err == nil {
				if res.StatusCode != http.StatusOK {
					b.Errorf("a sleeper got %d", res.StatusCode)
				}
				res.Body.Close()
			} else if ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	for began := time.Now(); p.defaultModel().engine.Stats().Waiting < n*9/10; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			wake()
			b.Fatalf("after a minute %+v", p.defaultModel().engine.Stats())
		}
	}
	return wake
}
