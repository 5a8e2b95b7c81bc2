package guest

import (
	"fmt"
	"slices"
	"time"

	"tgi/sdk/abi"
)

const (
	// statePositions is how many tokens a text has on which is tried what a guest says of its state: more than a guard
	// may hold back, and more than lie between two images of the server.
	statePositions = 320
	// stateTime bounds how long the parameters of a case are tried. The case's own come first, whatever time they take.
	stateTime = 4 * time.Second
)

// stateMoments are the tokens behind which the guest is taken back. From there on it goes on beside the one that was
// there all the time, to the next of them.
var stateMoments = []int{2, 5, 8, 12, 16, 23, 32, 48, 64, 96, 128, 160, 200, 256, 258, 300}

// StateTrial says how what a guest says of its state was tried, with one configuration. Where it broke no rule it was
// not caught: that is no proof.
type StateTrial struct {
	Kind  string `json:"kind"`
	State string `json:"state"` // what the description says, or its default: abi.StateNone ...
	// Params are those that it was tried with: the case's, and what the schema of the description allows.
	Params []string `json:"params"`
	// Positions is at how many tokens in a row answers were compared, the least of all parameters.
	Positions int `json:"positions"`
	// Short are parameters with which the sequence ended before there were as many positions as the kit tries, and why.
	Short []string `json:"short,omitempty"`
	// Refused are parameters made of the schema that the guest refuses, and its answers.
	Refused []string `json:"refused,omitempty"`
	// Untried are how many more parameters there was no time for.
	Untried int `json:"untried,omitempty"`
}

// state tries what the description says that a guest keeps of its sequence: another instance, shown what the server
// shows it where a guard took tokens back, answers as the one that was there all the time. more are parameters beside
// those of the case.
func (p *prepared) state(kind string, prompt []uint32, more []string) {
	now := p.run.now
	defer func() { p.run.now = now }()
	t := StateTrial{Kind: kind, State: p.d.State, Positions: statePositions}
	began := time.Now()
	for i, params := range append([]string{now.Params}, more...) {
		if i > 0 && time.Since(began) > stateTime {
			t.Untried = 1 + len(more) - i
			break
		}
		c := *now
		c.Params = params
		p.run.now = &c
		if i > 0 {
			if fault, ok := p.validate(); !ok {
				continue
			} else if fault != "" {
				t.Refused = append(t.Refused, fmt.Sprintf("%s (%s)", params, fault))
				continue
			}
		}
		n, why := p.tryState(kind, prompt)
		t.Params, t.Positions = append(t.Params, params), min(t.Positions, n)
		if why != "" {
			t.Short = append(t.Short, fmt.Sprintf("%s: at token %d %s", params, n, why))
		}
	}
	p.run.trials = append(p.run.trials, t)
}

// tryState plays a sequence. It returns how many tokens it got to, and why no further.
func (p *prepared) tryState(kind string, prompt []uint32) (n int, why string) {
	s, ok := p.opened(kind, prompt)
	if !ok {
		return 0, "it did not begin"
	}
	defer s.Close()
	r := &restorer{base: p, original: s}
	defer r.close()
	moments := stateMoments
	for len(s.tokens)-len(prompt) < statePositions {
		if n = len(s.tokens) - len(prompt); len(moments) > 0 && n >= moments[0] {
			for len(moments) > 0 && n >= moments[0] {
				moments = moments[1:]
			}
			if why := r.restore(); why != "" {
				return n, why
			}
		}
		before := s.tokens[:len(s.tokens):len(s.tokens)] // which steps append to, and never change
		if s.d.State == abi.StateLogits {
			r.calls = append(r.calls, call{before, s.drawn})
		}
		a, ok := s.draw()
		switch {
		case !ok:
			return n, "it broke another rule"
		case r.twin != nil:
			r.twin.tokens = before
			if b, ok := r.twin.draw(); ok && a.String() != b.String() {
				p.run.report("restored", "%s: taken back to position %d it answers %s at position %d, the original %s",
					p.d.State, r.at, b, len(before), a)
				return n, "it answers otherwise"
			}
		}
		if a.Fault != "" {
			return n, "it failed: " + a.Fault
		}
		if a.Flags&abi.FlagStop != 0 {
			return n, "it ended the sequence"
		}
	}
	return statePositions, ""
}

// drawing is a sequence with random numbers of its own.
type drawing struct {
	*sequence
	drawn uint64
}

// draw takes a step.
func (d *drawing) draw() (a Answer, ok bool) {
	d.world.Seed = d.drawn
	a, ok = d.next()
	d.drawn = d.world.Seed
	return a, ok
}

// opened begins a sequence in an instance of its own.
func (p *prepared) opened(kind string, prompt []uint32) (*drawing, bool) {
	q, ok := p.begin()
	if !ok {
		return nil, false
	}
	p.world.Seed = seed
	s := &sequence{prepared: q, kind: kind, tokens: slices.Clone(prompt), prompt: uint32(len(prompt)), long: true}
	fault, ok := s.start()
	if fault != "" {
		p.run.report("begin", "%s", answerText("tgi_"+kind+"_begin", fault))
	}
	if !ok || fault != "" {
		s.Close()
		return nil, false
	}
	return &drawing{s, p.world.Seed}, true
}

// call is what the original was called with: the tokens before it, and the state of its random numbers.
type call struct {
	tokens []uint32
	drawn  uint64
}

// restorer takes a guest back, as its state says.
type restorer struct {
	base     *prepared // fresh instances are made of it
	original *drawing
	twin     *drawing // nil before it was taken back for the first time
	at       int      // where that was
	image    *drawing // of abi.StateLogits: a copy that was set aside
	calls    []call   // of abi.StateLogits: those since the image
}

func (r *restorer) close() {
	for _, d := range []*drawing{r.twin, r.image} {
		if d != nil {
			d.Close()
		}
	}
	r.twin, r.image = nil, nil
}

// restore makes the twin: an instance that is where the original is.
func (r *restorer) restore() (why string) {
	s := r.original
	if r.twin != nil {
		r.twin.Close()
		r.twin = nil
	}
	var twin *drawing
	var ok bool
	if s.d.State == abi.StateLogits {
		twin, ok = r.fromImage()
	} else if twin, ok = r.base.opened(s.kind, s.tokens[:s.prompt]); ok {
		if s.d.State == abi.StateTokens {
			ok = twin.replay(s.tokens)
		} else {
			ok = twin.mislead(s.tokens)
		}
	}
	r.twin, r.at = twin, len(s.tokens)
	if !ok {
		return "it can't be taken back"
	}
	if twin != nil {
		twin.drawn = s.drawn
	}
	return ""
}

// copied is a copy of a sequence.
func (d *drawing) copied() (*drawing, bool) {
	q, ok := d.begin()
	if !ok {
		return nil, false
	}
	s := *d.sequence
	s.prepared, s.tokens = q, slices.Clone(d.tokens)
	return &drawing{&s, d.drawn}, true
}

// fromImage shows a copy of the image what the original was shown since, and sets the next image aside. There is no
// twin before there is an image.
func (r *restorer) fromImage() (twin *drawing, ok bool) {
	if r.image != nil {
		if twin, ok = r.image.copied(); !ok {
			return nil, false
		}
		for _, c := range r.calls {
			twin.tokens, twin.drawn = c.tokens, c.drawn
			if a, ok := twin.draw(); !ok || a.Fault != "" {
				return twin, false
			}
		}
		r.image.Close()
	}
	r.calls = nil
	r.image, ok = r.original.copied()
	return twin, ok
}

// replay asks about each position before tokens' end, with rows that were never there. A sampler, which sees no
// tokens, is not asked.
func (d *drawing) replay(tokens []uint32) bool {
	if d.kind == abi.KindSampler {
		d.tokens = slices.Clone(tokens)
		return true
	}
	d.foreign = true
	for n := int(d.prompt); n < len(tokens); {
		d.tokens = tokens[:n:n]
		a, ok := d.draw()
		if !ok || a.Fault != "" {
			return false
		}
		n += max(len(a.Force), 1) // where it forced, it is asked behind that
	}
	d.foreign = false
	d.tokens = slices.Clone(tokens)
	return true
}

// mislead shows another end of the text, which is then taken back.
func (d *drawing) mislead(tokens []uint32) bool {
	left := max(len(tokens)-2, int(d.prompt))
	d.tokens = slices.Concat(tokens[:left], promptA, promptA)
	if a, ok := d.draw(); !ok || a.Fault != "" {
		return false
	}
	d.tokens, d.known = slices.Clone(tokens), uint32(left)
	return true
}
