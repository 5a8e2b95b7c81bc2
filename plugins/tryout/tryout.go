// Package tryout feeds a module one step, one text or one request without a server, and tells what it answered.
//
// It owns what each kind is fed and how its answer reads. The guest runs as a server runs it: the same sandbox, limits
// and checks. It knows neither files nor flags: `tgi plugin run` is built on it.
package tryout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
	"tgi/sdk/abi"
)

// Options say what the module is fed.
type Options struct {
	Name         string
	Wasm         []byte
	Config       []byte // of init; nil means {}
	Model        []byte // JSON object that a template finds as "model"
	Params       []byte // of the request; nil means {}
	Vocabulary   guest.Vocabulary
	Prompt, Text string // Text is what was generated: a guard and a tool parser read it
	Logits       map[uint32]float32
	Request      []byte // JSON object of a template or a tool parser; nil is one with Prompt as the message
	Language     string // of a grammar's source; "" is the first one that the module reads
	Source       string
	Seed         uint64
	CacheDir     string // for the compiled module; "" keeps none
}

// Answer is what one kind said.
type Answer struct {
	Kind string `json:"kind"`
	// Lines say it, one thing each.
	Lines []string `json:"lines"`
	// Refused is why the module refused, "" if it did not.
	Refused string `json:"refused,omitempty"`
	// Fuel and Seconds are what its calls took, without loading.
	Fuel    uint64  `json:"fuel"`
	Seconds float64 `json:"seconds"`
}

// Report is what came of it.
type Report struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Answers []Answer `json:"answers"`
	// Log is what the module printed.
	Log []string `json:"log"`
	// LoadSeconds is the time of compiling and init, Memory what an instance takes.
	LoadSeconds float64 `json:"load_seconds"`
	Memory      int64   `json:"memory"`
}

// maxLog bounds the lines that a report keeps.
const maxLog = 1000

// Run loads the module and feeds each of its kinds. The error says why a kind failed; the report has the answers before
// it.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	engine, err := sandbox.New(sandbox.Config{CacheDir: o.CacheDir})
	if err != nil {
		return nil, err
	}
	r = &Report{Answers: []Answer{}}
	var log printed
	defer func() { r.Log = log.lines() }()
	began := time.Now()
	g, err := guest.Load(ctx, engine, guest.Config{Name: o.Name, Wasm: o.Wasm, Config: o.Config,
		Model: o.Model, Vocabulary: o.Vocabulary, Program: program.Functions(), Log: log.add})
	if err != nil {
		return r, err
	}
	defer g.Close()
	d := g.Description()
	r.Name, r.Version, r.LoadSeconds = d.Name, d.Version, time.Since(began).Seconds()
	if d.Schema != nil {
		if err := d.Schema.Check(o.Params); err != nil {
			return r, fmt.Errorf("parameters: %w", err)
		}
	}
	t := &trial{Options: o, g: g, prompt: o.Vocabulary.Encode(o.Prompt), output: o.Vocabulary.Encode(o.Text)}
	for _, kind := range d.Kinds {
		before := g.Stats()
		t.lines = []string{}
		err := t.feed(ctx, kind)
		after := g.Stats()
		a := Answer{Kind: kind, Lines: t.lines, Fuel: after.Fuel - before.Fuel,
			Seconds: float64(after.Nanoseconds-before.Nanoseconds) / 1e9}
		var no *guest.Refusal
		if errors.As(err, &no) {
			a.Refused, err = no.Text, nil
		}
		r.Memory = max(r.Memory, after.Instances.Bytes)
		r.Answers = append(r.Answers, a)
		if err != nil {
			return r, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return r, nil
}

// printed collects what the module prints: its instances run in several goroutines.
type printed struct {
	mu   sync.Mutex
	list []string
}

func (p *printed) add(level int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < maxLog {
		p.list = append(p.list, [...]string{"debug", "info", "warn", "error"}[min(max(level, 0), 3)]+": "+text)
	}
}

// lines returns what there is, never nil.
func (p *printed) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.list...)
}

// Write writes the report for people; clean makes a text fit for a terminal.
func (r *Report) Write(w io.Writer, clean func(string) string) (err error) {
	print := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	print("%s %s, loaded in %.3f s, an instance takes %d bytes\n", clean(r.Name), clean(r.Version), r.LoadSeconds,
		r.Memory)
	for _, a := range r.Answers {
		print("\n%s: %d units of fuel, %.3f ms\n", a.Kind, a.Fuel, a.Seconds*1000)
		for _, line := range a.Lines {
			print("  %s\n", clean(line))
		}
		if a.Refused != "" {
			print("  refused: %s\n", clean(a.Refused))
		}
	}
	if len(r.Log) > 0 {
		print("\nlog\n")
	}
	for _, line := range r.Log {
		print("  %s\n", clean(line))
	}
	return err
}

// trial feeds one guest.
type trial struct {
	Options
	g              *guest.Guest
	prompt, output []uint32
	lines          []string
}

func (t *trial) say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// token names a token.
func (t *trial) token(id uint32) string { return fmt.Sprintf("%d %q", id, t.Vocabulary.Bytes(id)) }

// row is the logits of the step: those that were given; without any, made-up ones that fall with the id.
func (t *trial) row() []float32 {
	row := make([]float32, t.Vocabulary.Size())
	for id := range row {
		if row[id] = -20; len(t.Logits) == 0 {
			row[id] = -float32(id) / 8
		}
	}
	for id, x := range t.Logits {
		if int(id) < len(row) {
			row[id] = x
		}
	}
	return row
}

// likeliest are the ids of the highest logits, those that are forbidden left out.
func likeliest(row []float32, most int) (ids []uint32) {
	for id, x := range row {
		if !math.IsInf(float64(x), -1) {
			ids = append(ids, uint32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(row[b], row[a]) })
	return ids[:min(len(ids), most)]
}

// feed gives a kind what it works on.
func (t *trial) feed(ctx context.Context, kind string) error {
	switch kind {
	case abi.KindTemplate:
		return t.render(ctx)
	case abi.KindTools:
		return t.parse(ctx)
	case abi.KindGrammar:
		return t.compile(ctx)
	case abi.KindProgram:
		return t.program(ctx)
	}
	s, err := t.g.Begin(guest.Start{Kinds: []string{kind}, Params: t.Params, Prompt: t.prompt, Seed: t.Seed,
		MaxTokens: len(t.prompt) + len(t.output) + 64, Cancel: ctx.Done()})
	if err != nil {
		return err
	}
	defer s.Close()
	switch kind {
	case abi.KindLogits:
		return t.process(s)
	case abi.KindSampler:
		return t.sample(s)
	case abi.KindGuard:
		return t.check(s)
	case abi.KindDraft:
		return t.propose(s)
	}
	return fmt.Errorf("kind %q can't be tried", kind)
}
