package grammar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"tgi/plugins/grammar"
)

// TestWorkloads: the texts of the benchmarks are admitted, token by token.
func TestWorkloads(t *testing.T) {
	v := largeVocab()
	for _, flexible := range []bool{false, true} {
		for _, wl := range workloads(flexible, "") {
			g, err := v.Compile(context.Background(), wl.g, grammar.Limits{})
			if err != nil {
				t.Fatalf("%s: %v", wl.name, err)
			}
			for _, text := range wl.texts {
				s := g.Start()
				mask := make([]uint32, g.Words())
				for i, id := range longest()(text) {
					if err := s.Mask(mask); err != nil {
						t.Fatalf("%s: %v", wl.name, err)
					}
					if mask[id/32]>>(id%32)&1 == 0 {
						t.Fatalf("%s: token %d, %q, is not in the mask", wl.name, i, large()[id].text)
					}
					if err := s.Accept(id); err != nil {
						t.Fatalf("%s: token %d of %q: %v", wl.name, i, text, err)
					}
				}
				if !s.CanEnd() {
					t.Errorf("%s: %q is not complete", wl.name, text)
				}
			}
		}
	}
}

// TestLargeMasksEqualTryingEveryToken compares masks with the result of accepting each token, at random positions of
// the workloads, where vocabulary slices and shared masks are in use.
func TestLargeMasksEqualTryingEveryToken(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	v := grammar.NewVocab(large(), 0)
	for _, wl := range append(workloads(false, "z"), workloads(true, "")...) {
		g := compile(t, v, wl.g, grammar.Limits{})
		text := wl.texts[0]
		for range 3 {
			s := g.Start()
			if err := s.AcceptBytes([]byte(text[:r.IntN(len(text))])); err != nil {
				t.Fatal(err)
			}
			mask := maskOf(t, s)
			for id := range uint32(len(large())) {
				if in := mask[id/32]>>(id%32)&1 != 0; in != s.Admits(id) {
					t.Fatalf("%s: token %d, %q, is %v in the mask", wl.name, id, large()[id].text, in)
				}
			}
		}
	}
}

// timings are what report sorts.
type timings []time.Duration

func (d timings) report(b *testing.B, what string) {
	slices.Sort(d)
	at := func(q float64) float64 {
		return float64(d[min(int(q*float64(len(d))), len(d)-1)].Nanoseconds()) / 1000
	}
	sum := time.Duration(0)
	for _, x := range d {
		sum += x
	}
	b.ReportMetric(at(0.5), what+"-p50-us")
	b.ReportMetric(at(0.99), what+"-p99-us")
	b.ReportMetric(at(1), what+"-max-us")
	b.ReportMetric(float64(sum.Microseconds())/float64(len(d)), what+"-mean-us")
}

// BenchmarkMask times masks along the workloads' texts at 128,256 tokens: with empty caches (cold), with a new grammar
// over a vocabulary that has served others (fresh: all names and patterns are new, the terminals for any string and any
// number are cached), and again with everything cached (warm).
func BenchmarkMask(b *testing.B) {
	for _, flexible := range []bool{false, true} {
		name := map[bool]string{false: "compact", true: "flexible"}[flexible]
		b.Run(name, func(b *testing.B) {
			var cold, fresh, warm, compile, step timings
			for n := range b.N {
				all := workloads(flexible, fmt.Sprint(name, b.N, n))
				for _, wl := range all {
					var unused timings
					run(b, grammar.NewVocab(large(), 0), wl, &compile, &cold, &unused)
				}
				v := largeVocab()
				for _, wl := range all {
					g := run(b, v, wl, &compile, &fresh, &step)
					follow(b, g, wl, &warm, &step)
				}
			}
			compile.report(b, "compile")
			cold.report(b, "cold")
			fresh.report(b, "fresh")
			warm.report(b, "warm")
			step.report(b, "accept")
		})
	}
}

func run(b *testing.B, v *grammar.Vocab, wl workload, compile, mask, step *timings) *grammar.Grammar {
	start := time.Now()
	g, err := v.Compile(context.Background(), wl.g, grammar.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	*compile = append(*compile, time.Since(start))
	follow(b, g, wl, mask, step)
	return g
}

// BenchmarkFresh is the fresh part of BenchmarkMask. For each position it takes the best of ten grammars with different
// names and patterns, to exclude the noise of other processes.
func BenchmarkFresh(b *testing.B) {
	for n := range b.N {
		var masks, patterns, compiles timings
		for _, flexible := range []bool{false, true} {
			best := map[string]timings{}
			for k := range 10 {
				for _, wl := range workloads(flexible, fmt.Sprint("best", flexible, b.N, n, k)) {
					var compile, mask, step timings
					run(b, largeVocab(), wl, &compile, &mask, &step)
					mask = append(mask, compile...)
					if old, ok := best[wl.name]; ok {
						for i := range mask {
							mask[i] = min(mask[i], old[i])
						}
					}
					best[wl.name] = mask
				}
			}
			for name, d := range best {
				if name == "patterns" { // each position has a new terminal
					patterns = append(patterns, d[:len(d)-1]...)
				} else {
					masks = append(masks, d[:len(d)-1]...)
				}
				compiles = append(compiles, d[len(d)-1])
			}
		}
		masks.report(b, "mask")
		patterns.report(b, "pattern")
		compiles.report(b, "compile")
	}
}

func follow(b *testing.B, g *grammar.Grammar, wl workload, mask, step *timings) {
	bits := make([]uint32, g.Words())
	for _, text := range wl.texts {
		s := g.Start()
		for _, id := range longest()(text) {
			start := time.Now()
			if err := s.Mask(bits); err != nil {
				b.Fatal(err)
			}
			*mask = append(*mask, time.Since(start))
			start = time.Now()
			if err := s.Accept(id); err != nil {
				b.Fatal(err)
			}
			*step = append(*step, time.Since(start))
		}
	}
}

// BenchmarkVocab prepares the vocabulary and reports the memory that it retains.
func BenchmarkVocab(b *testing.B) {
	w := large()
	var before, after runtime.MemStats
	for range b.N {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		v := grammar.NewVocab(w, 0)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(v.Bytes())/(1<<20), "MiB-stated")
	}
}
