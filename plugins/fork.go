package plugins

import (
	"errors"

	"tgi/plugins/internal/sandbox"
)

// errNoFork: a caller did not ask.
var errNoFork = errors.New("the plugins of this sequence can't be copied")

// CanFork reports whether the state of all plugins of the sequence can be copied. A sampler picks for one sequence
// alone.
func (s Sequence) CanFork() bool {
	if s.Sampler != nil {
		return false
	}
	for _, r := range s.sequence.runs {
		if !r.part.version.guest.CanClone() {
			return false
		}
	}
	return true
}

// Fork gives a sequence that is where s is now, between two steps, as a beam search has them: its plugins go on from
// copies of their state, with random numbers of their own, from seed. Forks of different sequences may be made at the
// same time, and each is released for itself. Errors are those of a step, or say what [Sequence.CanFork] does.
func (s Sequence) Fork(seed uint64) (Sequence, error) {
	if !s.CanFork() {
		return Sequence{}, errNoFork
	}
	twin := Sequence{bound: s.bound, sequence: &sequence{}}
	twin.sequence.state.Store(handedOut)
	for i, r := range s.sequence.runs {
		one, err := r.fork(seed)
		if err != nil {
			twin.sequence.close()
			return Sequence{}, err
		}
		p := &Processor{one, s.Processors[i].inner} // without a sampler each run is one processor
		if one.session != nil {
			p.inner = p.inner.Clone(one.session)
		}
		twin.sequence.runs, twin.Processors = append(twin.sequence.runs, one), append(twin.Processors, p)
	}
	s.bound.open.Add(1)
	return twin, nil
}

// fork gives the plugin in a sequence that begins where this one is.
func (r *run) fork(seed uint64) (*run, error) {
	twin := &run{bound: r.bound, part: r.part, stopped: r.stopped, err: r.err, succeeded: r.succeeded, faulty: r.faulty}
	if r.stopped {
		return twin, r.err
	}
	session, err := r.session.Clone(r.part.seed(seed), r.bound.ctx.Done())
	switch {
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrMemory):
		return nil, r.part.busyError(err)
	case err != nil:
		if err := r.handleError(err); err != nil {
			return nil, err
		}
		twin.stopped = true
	}
	twin.session = session
	return twin, nil
}
