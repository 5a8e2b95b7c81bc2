package plugins

import (
	"errors"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// errNoFork: the caller did not check CanFork.
var errNoFork = errors.New("the plugins of this sequence can't be copied")

// CanFork reports whether the state of all plugins of the sequence can be copied. That of a sampler cannot: it picks
// for a single sequence.
func (s Sequence) CanFork() bool {
	if s.Sampler != nil || len(s.Guards) > 0 {
		return false
	}
	for _, r := range s.sequence.runs {
		if !r.part.version.serves(abi.KindDraft) && !r.part.version.guest.CanClone() {
			return false
		}
	}
	return true
}

// Fork returns a sequence at the position of s, between two steps, for a beam search: its plugins continue from copies
// of their state, with their own random numbers, from seed. Forks of different sequences may be made at the
// same time, and each is released separately. Errors are those of a step, or say what [Sequence.CanFork] does.
func (s Sequence) Fork(seed uint64) (Sequence, error) {
	if !s.CanFork() {
		return Sequence{}, errNoFork
	}
	twin := Sequence{bound: s.bound, sequence: &sequence{}}
	twin.sequence.state.Store(handedOut)
	for _, r := range s.sequence.runs {
		if r.part.version.serves(abi.KindDraft) {
			continue // beams are not guessed for
		}
		one, err := r.fork(seed)
		if err != nil {
			twin.sequence.close()
			return Sequence{}, err
		}
		p := &Processor{one, s.Processors[len(twin.Processors)].inner} // without a sampler each run is one processor
		if one.session != nil {
			p.inner = p.inner.Clone(one.session)
		}
		twin.sequence.runs, twin.Processors = append(twin.sequence.runs, one), append(twin.Processors, p)
	}
	s.bound.open.Add(1)
	return twin, nil
}

// fork returns the plugin for a sequence that begins at this one's position.
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
	default:
		twin.follower = r.follower.fork(seed)
	}
	twin.session = session
	return twin, nil
}
