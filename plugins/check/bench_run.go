package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/plugins/draft"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

// Lengths of the measured sequences.
const (
	benchPrompt   = 64
	benchSequence = 256 // steps, then the next sequence begins
	benchRequests = 100 // requests that are validated, begun and ended to measure these alone
	benchClones   = 20
	benchWarm     = 16 // steps that are not counted
)

// processName, sampleName and proposeName begin the names of the series of steps; the mode of the answer follows the
// first.
const (
	processName = "process, "
	sampleName  = "sample"
	proposeName = "propose"
)

// running measures one set of parameters.
type running struct {
	*bench
	g      *guest.Guest
	params []byte
	calls  []*recorder
	run    BenchRun
	row    []float32
	step   int
}

// run measures requests with params, and steps of sequences that they begin.
func (b *bench) run(ctx context.Context, g *guest.Guest, params string, steps int) BenchRun {
	r := &running{bench: b, g: g, params: []byte(params), row: make([]float32, b.o.Vocabulary),
		run: BenchRun{Params: params}}
	d, err := g.Description(), error(nil)
	if slices.ContainsFunc(d.Kinds, guest.Steps) {
		err = r.requests(ctx)
		for r.step = -benchWarm; err == nil && r.step < steps; {
			err = r.sequence(ctx, steps)
		}
	}
	if err == nil && d.Serves(abi.KindTemplate) {
		err = r.renders(ctx)
	}
	if err == nil && d.Serves(abi.KindTools) {
		err = r.texts(ctx, steps)
	}
	if err == nil && d.Serves(abi.KindGrammar) {
		err = r.grammars(ctx, steps)
	}
	if err == nil && d.Serves(abi.KindProgram) {
		err = r.programs(ctx, steps)
	}
	var no *guest.Refusal
	if errors.As(err, &no) {
		r.run.Fault = "it refuses the parameters: " + no.Text
	} else if err != nil {
		r.run.Fault = err.Error()
	}
	for _, c := range r.calls {
		r.run.Calls = append(r.run.Calls, c.series())
	}
	return r.run
}

// measure times f, and adds what the guest did in it to the series that name returns. name is given whether the guest
// was called; "" leaves the call out.
func (r *running) measure(f func() error, name func(called bool) string) error {
	before := r.g.Stats()
	began := time.Now()
	err := f()
	took := time.Since(began)
	after := r.g.Stats()
	if err != nil {
		return err
	}
	series := name(after.Calls > before.Calls)
	if series == "" {
		return nil
	}
	i := slices.IndexFunc(r.calls, func(c *recorder) bool { return c.name == series })
	if i < 0 {
		i = len(r.calls)
		r.calls = append(r.calls, &recorder{name: series, budget: r.budget(series)})
	}
	r.calls[i].add(took, time.Duration(after.Nanoseconds-before.Nanoseconds), int64(after.Fuel-before.Fuel))
	return nil
}

// always returns a function that returns the same name for each call.
func always(name string) func(bool) string { return func(bool) string { return name } }

// budget is the fuel that the limits give a call of a series.
func (r *running) budget(name string) int64 {
	if language, call, ok := strings.Cut(name, ": "); ok && language != "" {
		name = call
	}
	switch {
	case name == "compile" || name == "validate" || name == "begin" || name == renderName || name == programName ||
		name == "begin of a text" || name == "finish":
		return r.g.Limits().FuelPerRequest
	case name == sampleName || name == proposeName || name == feedName || name == "mask" || name == "accept" ||
		strings.HasPrefix(name, processName) || strings.HasPrefix(name, checkName):
		return r.g.Limits().FuelPerStep
	}
	return 0
}

// prompt is made of likely tokens.
func (r *running) prompt() []uint32 {
	r.rows.fill(0, r.row)
	p := make([]uint32, benchPrompt)
	for i := range p {
		p[i] = r.rows.draw(0, r.row)
	}
	return p
}

// requests measures what happens once for each request.
func (r *running) requests(ctx context.Context) error {
	prompt := r.prompt()
	for i := range benchRequests {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.measure(func() error { return r.g.Validate(nil, r.params) }, always("validate")); err != nil {
			return err
		}
		s, err := r.begin(prompt, uint64(i))
		if err != nil {
			return err
		}
		r.end(s)
	}
	for range benchClones {
		if err := r.clone(prompt); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) begin(prompt []uint32, seed uint64) (s *guest.Session, err error) {
	err = r.measure(func() error {
		s, err = r.g.Begin(guest.Start{
			Params: r.params, Prompt: prompt, Seed: seed, MaxTokens: benchPrompt + benchSequence,
		})
		return err
	}, always("begin"))
	return s, err
}

// clone measures what best_of does with a sequence that has begun. Reading all of an instance's memory makes its reset
// slower, so these are not the sequences that are measured otherwise.
func (r *running) clone(prompt []uint32) error {
	s, err := r.g.Begin(guest.Start{Params: r.params, Prompt: prompt})
	if err != nil {
		return err
	}
	defer s.Close()
	var twin *guest.Session
	err = r.measure(func() (err error) {
		twin, err = s.Clone(1, nil)
		return err
	}, always("clone"))
	if errors.Is(err, sandbox.ErrHiddenState) {
		return nil // the server serves such a guest, to requests without best_of
	}
	if err != nil {
		return err
	}
	twin.Close()
	return nil
}

// end returns an instance to the pool, which resets it.
func (r *running) end(s *guest.Session) {
	_ = r.measure(func() error { s.Close(); return nil }, always("reset")) // it can't fail
}

// sequence runs one sequence to its end, or to the last step.
func (r *running) sequence(ctx context.Context, steps int) error {
	prompt := r.prompt()
	s, err := r.begin(prompt, uint64(r.step))
	if err != nil {
		return err
	}
	defer r.end(s)
	t := &turns{running: r, s: s, prompt: prompt}
	d := r.g.Description()
	if d.Serves(abi.KindLogits) {
		t.processor = logits.NewProcessor(s)
	}
	if d.Serves(abi.KindSampler) {
		t.sampler = logits.NewSampler(s)
	}
	if d.Serves(abi.KindGuard) {
		t.held = newHeld(s)
	}
	if d.Serves(abi.KindDraft) {
		t.drafter = draft.NewProposer(s)
	}
	memory := len(s.Memory())
	r.run.Memory = max(r.run.Memory, memory)
	for range benchSequence {
		if r.step == steps {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		stop, err := t.next()
		if err != nil {
			return fmt.Errorf("step %d of a sequence: %w", len(t.output), err)
		}
		r.run.Grown = max(r.run.Grown, len(s.Memory())-memory)
		r.step++
		if stop {
			break
		}
	}
	return nil
}

// turns is one sequence under way.
type turns struct {
	*running
	s              *guest.Session
	processor      *logits.Processor
	sampler        *logits.Sampler
	held           *held
	drafter        *draft.Proposer
	prompt, output []uint32
}

// next takes one step.
func (t *turns) next() (stop bool, err error) {
	t.rows.fill(len(t.output), t.row)
	e := logits.None()
	if t.processor != nil {
		if e, err = t.process(); err != nil {
			return false, err
		}
	}
	if t.drafter != nil {
		if err := t.propose(); err != nil {
			return false, err
		}
	}
	token := uint32(max(e.Force, 0))
	if e.Force < 0 {
		if t.sampler != nil {
			token, err = t.sample()
		} else {
			token = t.rows.draw(len(t.output), t.row)
		}
	}
	t.output = append(t.output, token)
	if t.held != nil && err == nil {
		return t.check()
	}
	return e.Stop, err
}

func (t *turns) process() (e logits.Effect, err error) {
	err = t.measure(func() error {
		e, err = t.processor.Process(t.prompt, t.output, t.row)
		return err
	}, func(called bool) string {
		switch {
		case t.step < 0:
			return ""
		case !called:
			t.run.Forced++
			return ""
		}
		mode := binary.LittleEndian.Uint32(t.s.Memory()[t.s.Rooms().Step+abi.StepMode:])
		return processName + abi.ModeNames[mode]
	})
	return e, err
}

func (t *turns) propose() error {
	var room [abi.MaxDraft]uint32
	return t.measure(func() error {
		_, err := t.drafter.Propose(t.prompt, t.output, room[:])
		return err
	}, func(bool) string {
		if t.step < 0 {
			return ""
		}
		return proposeName
	})
}

func (t *turns) sample() (token uint32, err error) {
	step, n := len(t.output), t.sampler.Candidates()
	ids := make([]uint32, n)
	for rank := range ids {
		ids[rank] = t.rows.id(step, rank)
	}
	err = t.measure(func() error {
		i, err := t.sampler.Sample(ids, t.rows.logits[:n], t.rows.logprobs[:n])
		if err == nil {
			token = ids[i]
		}
		return err
	}, func(bool) string {
		if t.step < 0 {
			return ""
		}
		return sampleName
	})
	return token, err
}
