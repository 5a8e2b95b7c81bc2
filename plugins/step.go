package plugins

import "tgi/plugins/logits"

// Effect is what a processor wants beside its change of the logits.
type Effect = logits.Effect

// Processor is a plugin of kind "logits" in one sequence. It is used by one goroutine at a time.
//
// An error names plugin, export, what went wrong and what the guest printed last, or is the context's; it comes again at
// every further call. Where the plugin's OnError is skip, its failing is no error: from then on the calls do nothing.
type Processor struct {
	r     *run
	inner *logits.Processor
}

// Name gives the plugin's name.
func (p *Processor) Name() string { return p.r.part.name }

// Ahead reports whether the guest looks at no logits, so that Prepare has something to do before they are known.
func (p *Processor) Ahead() bool { return p.inner.Ahead() }

// Prepare asks the guest about the next position, if it can be asked before the logits are known. prompt is what the
// sequence began with, output what followed; they are not kept.
func (p *Processor) Prepare(prompt, output []uint32) error {
	if p.r.stopped {
		return p.r.err
	}
	p.r.step = len(output)
	if err := p.inner.Prepare(prompt, output); err != nil {
		return p.r.fail(err)
	}
	return nil
}

// Process asks the guest about the next position and applies its answer to the logits, one for each id of the
// vocabulary. Where the guest fails, the logits are left as they were.
func (p *Processor) Process(prompt, output []uint32, row []float32) (Effect, error) {
	if p.r.stopped {
		return logits.None(), p.r.err
	}
	p.r.step = len(output)
	effect, err := p.inner.Process(prompt, output, row)
	if err != nil {
		return logits.None(), p.r.fail(err)
	}
	p.r.worked = true
	return effect, nil
}

// Sampler is a plugin of kind "sampler" in one sequence. It is used by one goroutine at a time. Its errors are those of
// Processor.
type Sampler struct {
	r     *run
	inner *logits.Sampler
	steps int // that it has picked for
}

// NoChoice is what Sample returns for a plugin that was passed over.
const NoChoice = -1

// Candidates is how many candidates the guest looks at, at most, always the same.
func (p *Sampler) Candidates() int { return p.inner.Candidates() }

// Sample has the guest choose one of the candidates, the most likely first, and returns its index, or NoChoice, after
// which the token is to be picked as without the plugin. The slices are equally long, not empty, and not kept.
func (p *Sampler) Sample(ids []uint32, values, logprobs []float32) (int, error) {
	if p.r.stopped {
		return NoChoice, p.r.err
	}
	p.r.step = p.steps
	i, err := p.inner.Sample(ids, values, logprobs)
	if err != nil {
		return NoChoice, p.r.fail(err)
	}
	p.steps++
	p.r.worked = true
	return i, nil
}
