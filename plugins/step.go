package plugins

import (
	"tgi/plugins/logits"
	"tgi/runtime/llm"
)

// Effect is what a processor wants besides its change of the logits.
type Effect = logits.Effect

// Processor is a plugin of kind "logits" in one sequence. It is used by one goroutine at a time.
//
// An error names plugin, export, what went wrong and what the guest printed last, or is the context's; it comes again
// at every further call. If the plugin's OnError is skip, a fault is no error: later calls do nothing. That it forbids
// all that others left is no fault, whatever its OnError is: llm.ErrDeadEnd.
type Processor struct {
	r     *run
	inner *logits.Processor
}

// Name returns the plugin's name.
func (p *Processor) Name() string { return p.r.part.name }

// Ahead reports whether the guest looks at no logits, so that Prepare has something to do before they are known.
func (p *Processor) Ahead() bool { return p.inner.Ahead() }

// Process implements the engine's sample.Processor.
func (p *Processor) Process(h llm.History, s *llm.Position) error {
	e, err := p.Run(h.Prompt, h.Output, s.Logits)
	if err != nil {
		return err
	}
	if e.Temperature == e.Temperature { // not NaN
		s.Temperature = e.Temperature
	}
	if e.Force >= 0 {
		s.Force, s.ForcedBy = e.Force, p.Name()
	}
	if e.Stop && !s.Stop {
		s.Stop, s.StoppedBy = true, p.Name()
	}
	return nil
}

// Forced implements the engine's sample.Forcer: the tokens that the guest has forced in advance.
func (p *Processor) Forced(h llm.History, room []uint32) int {
	if p.r.stopped {
		return 0
	}
	return copy(room, p.inner.Queue(h.Prompt, h.Output))
}

// Preparer is a Processor that is Ahead, as the engine's sample.Preparer.
type Preparer struct{ *Processor }

// Prepare implements sample.Preparer.
func (p Preparer) Prepare(h llm.History) error { return p.RunAhead(h.Prompt, h.Output) }

// RunAhead asks the guest about the next position, if it can be asked before the logits are known. prompt is what the
// sequence began with, output what followed; they are not kept.
func (p *Processor) RunAhead(prompt, output []uint32) error {
	if p.r.stopped {
		return p.r.err
	}
	p.r.step = len(output)
	p.r.record(len(output))
	if err := p.inner.Prepare(prompt, output); err != nil {
		return p.r.handleError(err)
	}
	return nil
}

// Run asks the guest about the next position and applies its answer to the logits, one for each id of the
// vocabulary. Where the guest fails, the logits are left as they were.
func (p *Processor) Run(prompt, output []uint32, row []float32) (Effect, error) {
	if p.r.stopped {
		return logits.None(), p.r.err
	}
	p.r.step = len(output)
	if tape := p.r.record(len(output)); tape != nil {
		p.inner.Tape = func(view []byte) { tape.view = append(tape.view[:0], view...) }
	}
	before := p.r.follower.copyRow(row)
	effect, err := p.inner.Process(prompt, output, row)
	if err != nil {
		return logits.None(), p.r.handleError(err)
	}
	p.r.succeeded = true
	p.r.follower.processed(output, before, row, effect)
	return effect, nil
}

// Sampler is a plugin of kind "sampler" in one sequence. It is used by one goroutine at a time. Its errors are those of
// Processor.
type Sampler struct {
	r     *run
	inner *logits.Sampler
	steps int // that it has picked for
	// The candidates of a step, as the guest wants them.
	ids              []uint32
	logits, logprobs []float32
}

// NoChoice is what Sample returns for a plugin that was skipped.
const NoChoice = llm.NoChoice

// Name returns the plugin's name.
func (p *Sampler) Name() string { return p.r.part.name }

// Candidates returns the most candidates that the guest looks at; it never changes.
func (p *Sampler) Candidates() int { return p.inner.Candidates() }

// Sample implements the engine's sample.Sampler.
func (p *Sampler) Sample(h llm.History, list []llm.Candidate) (int, error) {
	p.steps = len(h.Output)
	p.ids, p.logits, p.logprobs = p.ids[:0], p.logits[:0], p.logprobs[:0]
	for _, c := range list {
		p.ids = append(p.ids, c.Token)
		p.logits = append(p.logits, c.Logit)
		p.logprobs = append(p.logprobs, c.Logprob)
	}
	return p.Choose(p.ids, p.logits, p.logprobs)
}

// Choose lets the guest choose one of the candidates, which are sorted by falling probability, and returns its index.
// On NoChoice the caller picks the token as without the plugin. The slices have equal lengths, are not empty, and are
// not kept.
func (p *Sampler) Choose(ids []uint32, values, logprobs []float32) (int, error) {
	if p.r.stopped {
		return NoChoice, p.r.err
	}
	p.r.step = p.steps
	if tape := p.r.record(p.steps); tape != nil {
		tape.ids, tape.logits = append(tape.ids[:0], ids...), append(tape.logits[:0], values...)
		tape.logprobs = append(tape.logprobs[:0], logprobs...)
	}
	i, err := p.inner.Sample(ids, values, logprobs)
	if err != nil {
		return NoChoice, p.r.handleError(err)
	}
	p.r.follower.chose(p.steps, ids, values, logprobs, i)
	p.steps++
	p.r.succeeded = true
	return i, nil
}
