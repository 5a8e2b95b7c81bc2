package decoder

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/synth"
	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/sample"
)

// told is a processor that has a model with random weights write a given text.
type told []llm.Token

func (t told) Process(h sample.History, s *sample.Step) error {
	s.Force = int64(t[len(h.Output)])
	return nil
}

// spelled turns texts into tokens of about the size that tokenizers make: each piece has a number.
type spelled map[string]llm.Token

var piece = regexp.MustCompile(`\s?[A-Za-z]{1,5}|[0-9]|\n[\t ]*| +|[^A-Za-z0-9\s]`)

func (s spelled) tokens(text string) (out []llm.Token) {
	for _, p := range piece.FindAllString(text, -1) {
		id, ok := s[p]
		if !ok {
			id = llm.Token(1000 + len(s))
			s[p] = id
		}
		out = append(out, id)
	}
	return out
}

// writing is what a stream reads and writes.
type writing struct{ prompt, text, predict []llm.Token }

// writings returns tasks of one kind, so many.
func writings(b testing.TB, kind string, n int) (out []writing) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	s := spelled{}
	code, article := read("runtime/stop/stop.go"), read("docs/rationale/sdk.md")
	switch kind {
	case "edit", "predicted edit": // of a file, of which a word changes in 17 places
		w := writing{prompt: s.tokens("Rename the variable s to match in this file:\n" + code),
			text: s.tokens(regexp.MustCompile(`\bs\b`).ReplaceAllString(code, "match"))}
		if kind != "edit" {
			w.predict = s.tokens(code)
		}
		out = append(out, w)
	case "quotes": // an answer that quotes paragraphs
		parts := strings.Split(article, "\n\n")
		text := "The page has an answer to this. It says:\n\n" + parts[2] +
			"\n\nThere is more about the other question, a bit further below:\n\n" + parts[5] + "\n\nAnd to sum it all up:\n\n" +
			parts[7]
		out = append(out, writing{prompt: s.tokens("What does this page say?\n" + article), text: s.tokens(text)})
	case "novel": // texts that have nothing to do with the prompt but the language
		pages := []string{"docs/rationale/runtime.md", "docs/rationale/plugins.md", "docs/rationale/server.md"}
		for i := range n {
			all := s.tokens(read(pages[i%len(pages)]))
			from := 200 + i/len(pages)*150
			out = append(out, writing{prompt: s.tokens(article)[:300], text: all[from : from+100]})
		}
	}
	for i := range out {
		out[i].text = out[i].text[:min(len(out[i].text), 400)]
	}
	return out
}

// BenchmarkSpeculation writes given texts with and without guesses in turns, and reports the ratio of the median times
// and of the steps:
//
//	go test ./models/decoder -run '^$' -bench Speculation -benchtime 1x
func BenchmarkSpeculation(b *testing.B) {
	startRuntime(b)
	dir := filepath.Join(b.TempDir(), "m")
	if err := synth.Write(dir, "qwen2.5-0.5b", 1); err != nil {
		b.Fatal(err)
	}
	ck, err := hf.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ck.Close()
	for _, w := range []models.Weights{models.Int4, models.Int8} {
		r, path := buildTo(b, ck, Options{Weights: w})
		for _, kind := range []string{"edit", "predicted edit", "quotes", "novel"} {
			b.Run(fmt.Sprint(w, "/", kind), func(b *testing.B) {
				jobs := writings(b, kind, 16)
				var took [2][]time.Duration
				var steps [2]int
				engines, wrong := [2]*engine.Engine{}, wrong{}
				for on := range engines {
					engines[on] = openEngine(b, r, path, draft.Settings{Tokens: 7 * on}, &wrong)
				}
				rounds := 5
				for range b.N * rounds {
					for on, e := range engines {
						before, began := e.Stats().Steps, time.Now()
						writeAll(b, e, jobs)
						took[on] = append(took[on], time.Since(began))
						steps[on] = e.Stats().Steps - before
					}
				}
				for _, list := range took {
					slices.Sort(list)
				}
				b.ReportMetric(took[0][len(took[0])/2].Seconds()/took[1][len(took[1])/2].Seconds(), "x-as-fast")
				b.ReportMetric(float64(steps[0])/float64(steps[1]), "x-fewer-steps")
				b.ReportMetric(float64(wrong.guesses.Load())/float64(len(took[1])), "wrong-guesses")
			})
		}
	}
}

// wrong counts guesses that were computed for nothing. It is an Observer.
type wrong struct{ guesses atomic.Int64 }

func (c *wrong) Step(r engine.Report) {
	for _, n := range r.Drafts.Rejected {
		c.guesses.Add(int64(n))
	}
}

func openEngine(b *testing.B, r Result, path string, s draft.Settings, o engine.Observer) *engine.Engine {
	p := openPaged(b, path, ort.Options{Layers: r.Arch.Layers, KVHeads: r.Arch.KVHeads,
		HeadDim: r.Arch.HeadDim, Vocab: r.Arch.Vocab, MaxLen: 4096, Blocks: 1024, Width: r.Arch.Width,
		Places: r.Arch.Places, Cache: ort.CacheForm(r.Layout.Cache)})
	e, err := engine.New(served{p}, numbered{}, engine.Config{Speculation: s, Observer: o})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e
}

// writeAll has all texts written at once.
func writeAll(b *testing.B, e *engine.Engine, jobs []writing) {
	var all sync.WaitGroup
	for _, j := range jobs {
		all.Go(func() {
			p := llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: len(j.text),
				IgnoreEOS: true}
			got, err := answered(e, engine.Request{Prompt: j.prompt, Params: p, N: 1, Prediction: j.predict,
				Plugins: func(int) sample.Plugins {
					return sample.Plugins{Processors: []sample.Processor{told(j.text)}}
				}})
			if err != nil || !slices.Equal(got.tokens[0], j.text) {
				b.Errorf("wrote %v, %v", got.tokens, err)
			}
		})
	}
	all.Wait()
}
