package host

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/engine"
)

// stepTimes keeps the reports of steps that computed the next token of every stream.
type stepTimes struct {
	mu      sync.Mutex
	streams int
	list    []engine.Report
}

// of begins anew, with so many streams.
func (s *stepTimes) of(streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams, s.list = streams, nil
}

// Step implements engine.Observer.
func (s *stepTimes) Step(r engine.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.DecodeRows == s.streams {
		s.list = append(s.list, r)
	}
}

// take returns the reports since the last call.
func (s *stepTimes) take() []engine.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// eachMS lists the milliseconds of a part of steps.
func eachMS(list []engine.Report, part func(engine.Report) time.Duration) []float64 {
	out := make([]float64, len(list))
	for i, r := range list {
		out[i] = float64(part(r)) / 1e6
	}
	return out
}

// meanMS is their mean.
func meanMS(list []engine.Report, part func(engine.Report) time.Duration) (mean float64) {
	for _, ms := range eachMS(list, part) {
		mean += ms / float64(len(list))
	}
	return mean
}

// BenchmarkConstrained reports the tokens per second of 16 streams without a grammar, and the ratios to that of the
// same streams held to a regular expression and to a JSON Schema: in turns, medians of all rounds. No text can end
// before its length limit, and each stream draws with a seed of its own, so that streams are at different places of the
// grammar. The grammar of each round is new, so its compilation is part of the first tokens' time.
//
// mask-ms is what the masks of a step took on all cores together, forward-ms and pick-ms what the step's parts took:
// masks are computed while the forward pass runs when forward-ms is not longer by mask-ms than without a grammar.
//
// The model is that of openMeasured.
func BenchmarkConstrained(b *testing.B) {
	const streams, tokens = 16, 64
	times := &stepTimes{streams: streams}
	p := openMeasured(b, times, nil)
	run := func(more string) float64 {
		began := time.Now()
		var all sync.WaitGroup
		for i := range streams {
			all.Go(func() {
				status, text := p.call(b, http.MethodPost, "/generate", fmt.Appendf(nil,
					`{"inputs":"Tell me a story.","parameters":{"details":true,"do_sample":true,"seed":%d,"max_new_tokens":%d%s}}`, i+1, tokens, more))
				if status != http.StatusOK || !strings.Contains(text, `"finish_reason":"length"`) {
					b.Errorf("%d %s", status, text)
				}
			})
		}
		all.Wait()
		return streams * tokens / time.Since(began).Seconds()
	}
	kinds := []struct{ name, more string }{
		{"free", `,"ignore_eos":true`},
		{"again", `,"ignore_eos":true`},
		{"regex", `,"grammar":{"type":"regex","value":"r%d:([a-z]+ [a-z]+[0-9]{1,4}[,.] ){400,}"}`},
		{"schema",
			`,"grammar":{"type":"json","value":{"type":"array","minItems":200,"items":{"type":"object","additionalProperties":false,` +
				`"required":["name","k%d","tags"],"properties":{"name":{"type":"string","maxLength":20},"k%[1]d":{"type":"integer"},` +
				`"tags":{"type":"array","maxItems":2,"items":{"enum":["red","green","blue"]}}}}}}`},
	}
	rates, ratios := map[string][]float64{}, map[string][]float64{}
	forward, pick, mask := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	run(kinds[0].more)
	times.take()
	for round := 0; b.Loop(); round++ {
		for i := range kinds { // none is always first
			k := kinds[(i+round)%len(kinds)]
			more := k.more
			held := strings.Contains(more, "grammar")
			if held {
				more = fmt.Sprintf(more, round)
			}
			before := p.defaultModel().control.set.GrammarStats()
			rates[k.name] = append(rates[k.name], run(more))
			after := p.defaultModel().control.set.GrammarStats()
			steps := times.take()
			forward[k.name] = append(forward[k.name],
				meanMS(steps, func(r engine.Report) time.Duration { return r.Forward }))
			pick[k.name] = append(pick[k.name], meanMS(steps, func(r engine.Report) time.Duration { return r.Pick }))
			mask[k.name] = append(mask[k.name], (after.MaskSeconds-before.MaskSeconds)*1000/tokens)
			if held && after.Asked-before.Asked < streams*tokens {
				b.Errorf("%s: %d masks", k.name, after.Asked-before.Asked)
			}
		}
		for _, k := range kinds[1:] {
			ratios[k.name] = append(ratios[k.name], rates[k.name][round]/rates["free"][round])
		}
	}
	for _, k := range kinds {
		b.ReportMetric(median(rates[k.name]), "tok/s-"+k.name)
		b.ReportMetric(median(forward[k.name]), "forward-ms-"+k.name)
		b.ReportMetric(median(pick[k.name]), "pick-ms-"+k.name)
		if k.name != "free" {
			b.ReportMetric(median(ratios[k.name]), "ratio-"+k.name)
		}
		if strings.Contains(k.more, "grammar") {
			b.ReportMetric(median(mask[k.name]), "mask-ms-"+k.name)
		}
	}
	b.ReportMetric(0, "ns/op")
}
