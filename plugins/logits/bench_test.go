package logits_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

// large is a vocabulary of 128,256 tokens.
const large = 128_256

func benchGuest(b testing.TB, name string) *guest.Guest {
	b.Helper()
	wasm, err := os.ReadFile(filepath.Join("testdata", name+".wasm"))
	if err != nil {
		b.Fatal(err)
	}
	words := guesttest.NewWords()
	words.More = large - words.Size()
	return load(b, wasm, words)
}

// randomRow is a realistic row: most logits are far below the few best.
func randomRow(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(r.NormFloat64()*2 - 3)
	}
	return row
}

// steps times Process of one sequence; further functions are measured alternately.
func steps(b *testing.B, g *guest.Guest, more map[string]func(row []float32)) {
	p := logits.NewProcessor(begin(b, g, guest.Start{Prompt: prompt}))
	row := randomRow(large)
	clean := slices.Clone(row)
	times := map[string][]time.Duration{}
	output := make([]uint32, 0, 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for name, f := range more {
			began := time.Now()
			f(row)
			times[name] = append(times[name], time.Since(began))
		}
		began := time.Now()
		if _, err := p.Process(prompt, output, row); err != nil {
			b.Fatal(err)
		}
		times["step"] = append(times["step"], time.Since(began))
		if output = append(output, 1); len(output) == cap(output) {
			b.StopTimer()
			p, output = logits.NewProcessor(begin(b, g, guest.Start{Prompt: prompt})), output[:0]
			b.StartTimer()
		}
		if len(output)%1000 == 0 { // biases accumulate
			copy(row, clean)
		}
	}
	for name, list := range times {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2])/1000, name+"-us")
	}
}

func BenchmarkNoop(b *testing.B)   { steps(b, benchGuest(b, "bench-noop"), nil) }
func BenchmarkSparse(b *testing.B) { steps(b, benchGuest(b, "bench-sparse"), nil) }

// BenchmarkRow128k compares a step that edits the row with copying the row there and back.
func BenchmarkRow128k(b *testing.B) {
	for language, name := range map[string]string{"C": "bench-row", "Rust": "bench-row-rust"} {
		b.Run(language, func(b *testing.B) {
			room := make([]float32, large)
			steps(b, benchGuest(b, name), map[string]func([]float32){"memmove": func(row []float32) {
				copy(room, row)
				copy(row, room)
			}})
		})
	}
}

// BenchmarkTopK64 compares a step that edits the 64 most likely tokens with finding the greatest logit in a plain loop.
func BenchmarkTopK64(b *testing.B) {
	var best float32
	steps(b, benchGuest(b, "bench-view"), map[string]func([]float32){"plain-maximum": func(row []float32) {
		best = row[0]
		for _, v := range row {
			if v > best {
				best = v
			}
		}
	}})
	_ = best
}

// BenchmarkBegin times the cost of a sequence without its steps.
func BenchmarkBegin(b *testing.B) {
	for _, language := range []string{"c", "rust", "assemblyscript", "go"} {
		b.Run(language, func(b *testing.B) {
			g := load(b, guesttest.SDK(b, "banned-and-boost")[language], guesttest.NewWords())
			var begun, closed []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				at := time.Now()
				s, err := g.Begin(guest.Start{Params: []byte(`{"ban":[97],"boost":{"#98":-1.5}}`), Prompt: prompt})
				if err != nil {
					b.Fatal(err)
				}
				begun = append(begun, time.Since(at))
				at = time.Now()
				s.Close()
				closed = append(closed, time.Since(at))
			}
			for name, list := range map[string][]time.Duration{"begin-us": begun, "close-us": closed} {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2])/1000, name)
			}
		})
	}
}

// BenchmarkClone times the cost of each further sequence of best_of.
func BenchmarkClone(b *testing.B) {
	for _, language := range []string{"c", "go"} {
		b.Run(language, func(b *testing.B) {
			g := load(b, guesttest.SDK(b, "banned-and-boost")[language], guesttest.NewWords())
			s := begin(b, g, guest.Start{Params: []byte(`{"ban":[97],"boost":{"#98":-1.5}}`), Prompt: prompt})
			var cloned, closed []time.Duration
			for b.Loop() {
				at := time.Now()
				twin, err := s.Clone(1, nil)
				if err != nil {
					b.Fatal(err)
				}
				cloned = append(cloned, time.Since(at))
				at = time.Now()
				twin.Close()
				closed = append(closed, time.Since(at))
			}
			for name, list := range map[string][]time.Duration{"clone-us": cloned, "close-us": closed} {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2])/1000, name)
			}
			b.ReportMetric(float64(len(s.Memory()))/1e6, "MB")
		})
	}
}

// BenchmarkView times only the selection.
func BenchmarkView(b *testing.B) {
	row := randomRow(large)
	for _, n := range []int{1, 64, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			to := make([]byte, n*abi.ViewEntrySize)
			var times []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				logits.WriteView(to, row, n)
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1000, "view-us")
		})
	}
}
