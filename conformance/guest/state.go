package guest

import (
	"slices"

	"tgi/sdk/abi"
)

// state proves what the description says that a guest keeps of its sequence: a fresh instance, shown what the server
// shows it where a guard took tokens back, answers as the one that was there all the time.
func (p *prepared) state(kind string, prompt []uint32) {
	if p.d.State == abi.StateLogits {
		return
	}
	q, ok := p.begin()
	if !ok {
		return
	}
	p.world.Seed = seed
	s := &sequence{prepared: q, kind: kind, tokens: slices.Clone(prompt), prompt: uint32(len(prompt))}
	defer s.Close()
	if fault, ok := s.start(); !ok || fault != "" {
		return
	}
	for i := range steps {
		before := slices.Clone(s.tokens)
		drawn := p.world.Seed
		a, ok := s.next()
		if !ok || a.Fault != "" || a.Flags&abi.FlagStop != 0 || p.d.State == abi.StateNone && len(a.Force) > 0 {
			return
		}
		if i%3 != 2 {
			continue
		}
		after := p.world.Seed
		twin, ok := p.restored(kind, before, drawn)
		p.world.Seed = after
		if ok && twin.String() != a.String() {
			p.run.report("restored", "%s: restored at position %d it answers %s, the original %s", p.d.State, len(before),
				twin, a)
			return
		}
	}
}

// restored is the answer of a fresh instance for the position behind the tokens.
func (p *prepared) restored(kind string, tokens []uint32, drawn uint64) (a Answer, ok bool) {
	q, ok := p.begin()
	if !ok {
		return a, false
	}
	s := &sequence{prepared: q, kind: kind, tokens: slices.Clone(promptA), prompt: uint32(len(promptA))}
	defer s.Close()
	p.world.Seed = seed
	if fault, ok := s.start(); !ok || fault != "" {
		return a, false
	}
	if p.d.State == abi.StateTokens {
		for s.foreign = true; len(s.tokens) < len(tokens); {
			had := len(s.tokens)
			if a, ok = s.next(); !ok || a.Fault != "" {
				return a, false
			}
			next := max(len(a.Force), 1)
			s.tokens = append(s.tokens[:had], tokens[had:min(had+next, len(tokens))]...)
		}
		s.foreign = false
	} else { // it is shown another end of the text before, which is taken back
		left := max(len(tokens)-2, len(promptA))
		s.tokens = slices.Concat(tokens[:left], promptA, promptA)
		if a, ok = s.next(); !ok || a.Fault != "" {
			return a, false
		}
		s.tokens, s.known = slices.Clone(tokens), uint32(left)
	}
	p.world.Seed = drawn
	return s.next()
}
