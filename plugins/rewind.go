package plugins

import (
	"errors"
	"fmt"
	"slices"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/logits"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// A guard takes tokens back, and what other plugins of the sequence keep of them has to go too. No guest is asked to
// undo anything: an instance that was where the sequence is now takes the place of the present one. It is made from an
// image, an instance that was set aside, or from a fresh one, and is shown again what the guest saw from there on. Its
// answers are dropped.

// imageEvery is how many positions lie between two images: more than two guards may hold, and the one that they are
// asked about, so that the older of two is never too young.
const imageEvery = 2*llm.MaxHold + 2

// history is what a run remembers so that it can be taken back; nil where no guard can.
type history struct {
	start   guest.Start // of the instance, or of the one that it was a copy of
	own     uint64      // seed of its random numbers
	state   string
	images  []image // the older one first
	tape    []shown // from the first image on
	from    int     // the position of the first of these
	tried   int     // where an image was set aside last, or could not be
	rewinds []int   // positions that the sequence was taken back to
	at      int     // of the last rewind, where no call was made since; else -1
}

// image is an instance that was set aside before the call at a position.
type image struct {
	at        int
	session   *guest.Session
	processor *logits.Processor
}

// shown is what a guest was shown of one position beside the tokens. It is not asked about a position that another
// plugin, or a guard, decides alone.
type shown struct {
	asked            bool
	view             []byte
	ids              []uint32
	logits, logprobs []float32
}

// CanRewind implements the engine's sample.RewindChecker.
func (p *Processor) CanRewind() error { return p.r.canRewind() }

// CanRewind implements the engine's sample.RewindChecker.
func (p *Sampler) CanRewind() error { return p.r.canRewind() }

// Rewind implements the engine's sample.Rewinder.
func (p *Processor) Rewind(h llm.History) error { return p.r.rewind(h) }

// Rewind implements the engine's sample.Rewinder.
func (p *Sampler) Rewind(h llm.History) error { return p.r.rewind(h) }

func (r *run) canRewind() error {
	d := r.part.version.guest.Description()
	if d.State == abi.StateLogits && d.Row {
		return fmt.Errorf("plugin %s reads whole rows of logits and does not say that it keeps nothing of them "+
			"(\"state\" in its description), so no guard can take tokens back", r.part.name)
	}
	return nil
}

// remember begins the history of a run, whose instance began with start, or is a copy of one that did.
func (r *run) remember(start guest.Start, own uint64) {
	start.Params, start.Prompt = slices.Clone(start.Params), nil
	r.past = &history{start: start, own: own, state: r.part.version.guest.Description().State, at: -1}
}

// record is called before the guest is shown a position. It sets an image aside now and then.
func (r *run) record(position int) *shown {
	p := r.past
	if p == nil {
		return nil
	}
	if p.at = -1; p.state != abi.StateLogits {
		return nil
	}
	for len(p.tape) > 0 && p.from+len(p.tape) > position+1 { // asked again, after it had prepared
		p.tape = p.tape[:len(p.tape)-1]
	}
	if n := len(p.images); p.from+len(p.tape) <= position && position-max(p.youngest(), p.tried) >= imageEvery &&
		r.part.version.guest.CanClone() {
		p.tried = position
		if s, err := r.session.Copy(p.start.Cancel); err == nil { // else the tape grows
			if n == 2 {
				p.images[0].session.Close()
				p.images = slices.Delete(p.images, 0, 1)
			}
			next := image{at: position, session: s}
			if r.processor != nil {
				next.processor = r.processor.Clone(s)
			}
			p.images = append(p.images, next)
			if len(p.images) == 2 {
				p.tape = slices.Delete(p.tape, 0, p.images[0].at-p.from)
				p.from = p.images[0].at
			}
		}
	}
	for p.from+len(p.tape) <= position {
		p.tape = append(p.tape, shown{})
	}
	at := &p.tape[position-p.from]
	at.asked = true
	return at
}

// youngest returns where the youngest image is.
func (p *history) youngest() int {
	if n := len(p.images); n > 0 {
		return p.images[n-1].at
	}
	return 0
}

// rewind brings the guest to where it was when h was the history. It is called for each kind that the guest serves.
func (r *run) rewind(h llm.History) error {
	p, n := r.past, len(h.Output)
	if r.stopped {
		return r.err
	}
	if p == nil {
		return fmt.Errorf("BUG: %s: a rewind that nothing was kept for", r.part.name)
	}
	if p.at == n {
		return nil
	}
	p.at = n
	r.follower.rewound(h.Output)
	p.rewinds = append(slices.DeleteFunc(p.rewinds, func(at int) bool { return at > n }), n)
	if p.state == abi.StateNone {
		r.session.Reseed(p.seed(len(p.rewinds)))
		if r.processor != nil {
			r.processor.Forget(len(h.Prompt) + n)
		}
		return nil
	}
	err := r.restore(h)
	if errors.Is(err, sandbox.ErrBusy) || errors.Is(err, sandbox.ErrMemory) {
		r.part.recordMemoryFault(r.bound.set, err)
		r.stopped, r.err = true, r.part.busyError(err)
		return r.err
	}
	if err != nil {
		return r.handleError(err)
	}
	return nil
}

// seed returns the random numbers of a guest that was taken back so many times.
func (p *history) seed(times int) uint64 {
	return p.own ^ uint64(times)*0x9e3779b97f4a7c15
}

// restore replaces the instance by one that was shown the beginning h and no more.
func (r *run) restore(h llm.History) error {
	p, n := r.past, len(h.Output)
	for len(p.images) > 0 && p.images[len(p.images)-1].at > n {
		p.images[len(p.images)-1].session.Close()
		p.images = p.images[:len(p.images)-1]
	}
	p.tried = min(p.tried, n)
	if n < p.from {
		return fmt.Errorf("BUG: %s: taken back to %d, kept is what follows %d", r.part.name, n, p.from)
	}
	r.session.Close()
	from := 0
	if k := len(p.images); k > 0 {
		i := p.images[k-1]
		s, err := i.session.Copy(p.start.Cancel)
		if err != nil {
			return err
		}
		r.adopt(s, i.processor)
		from = i.at
	} else {
		p.start.Prompt = h.Prompt
		s, err := r.part.version.guest.Begin(p.start)
		p.start.Prompt = nil
		if err != nil {
			return err
		}
		if p.own != p.start.Seed {
			s.Reseed(p.own)
		}
		r.adopt(s, nil)
	}
	p.tape = p.tape[:min(len(p.tape), n-p.from)]
	for at := from; at < n; at++ {
		r.reseed(at)
		if err := r.replay(h, at); err != nil {
			return err
		}
	}
	r.reseed(n)
	return nil
}

// reseed gives the guest new random numbers where it was taken back to.
func (r *run) reseed(at int) {
	for i, x := range r.past.rewinds {
		if x == at {
			r.session.Reseed(r.past.seed(i + 1))
		}
	}
}

// adopt makes s the session of the run, whose processor continues from p, or begins.
func (r *run) adopt(s *guest.Session, p *logits.Processor) {
	r.session = s
	if r.processor != nil {
		*r.processor = *logits.NewProcessor(s)
		if p != nil {
			*r.processor = *p.Clone(s)
		}
	}
	if r.sampler != nil {
		*r.sampler = *logits.NewSampler(s)
	}
}

// replay shows the guest a position again.
func (r *run) replay(h llm.History, at int) error {
	var seen shown
	if r.past.state == abi.StateLogits {
		if i := at - r.past.from; i < len(r.past.tape) {
			seen = r.past.tape[i]
		}
		if !seen.asked {
			return nil
		}
	}
	if r.processor != nil {
		if err := r.processor.Replay(h.Prompt, h.Output[:at], seen.view); err != nil {
			return err
		}
	}
	if r.sampler != nil && len(seen.ids) > 0 {
		if _, err := r.sampler.Sample(seen.ids, seen.logits, seen.logprobs); err != nil {
			return err
		}
	}
	return nil
}

// close ends the images.
func (p *history) close() {
	if p == nil {
		return
	}
	for _, i := range p.images {
		i.session.Close()
	}
	p.images = nil
}
