package plugins

import (
	"fmt"
	"math"
	"slices"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// begin has the new version begin the sequences of a request. The runs of the serving one are those of p.
func (t *tally) begin(b *Bound, p *part, runs []*run, prompt []uint32, maxNew int, seeds []uint64) {
	list := t.followers(len(seeds))
	if list == nil {
		return
	}
	for i, r := range runs {
		r.follower = list[i]
	}
	prompt, seeds, rewinds := slices.Clone(prompt), slices.Clone(seeds), b.rewinds()
	call := p.call()
	list[0].show(4*len(prompt)+len(p.params), func() error {
		w := t.shadow
		b, err := w.apart.Bind(w.apart.life, call)
		if err != nil {
			return list[0].refused("parameters", err)
		}
		defer b.Close()
		b.followed = rewinds
		if err := b.Begin(w.apart.life, prompt, maxNew, seeds); err != nil {
			return list[0].refused("parameters", err)
		}
		for i, f := range list {
			w.live[f] = struct{}{}
			f.seq, f.prompt = b.Sequence(i), prompt
			f.end = f.seq.Release
		}
		for _, x := range list[0].seq.Processors {
			if rewinds && x.CanRewind() != nil {
				return errRoom
			}
		}
		return nil
	})
}

// fresh says which of the tokens of an output were shown, and copies the others. All are compared, since a program may
// rewind its context as far as it likes: four bytes a token of a step cost little beside a copy of the logits.
func (f *follower) fresh(output []uint32) (keep int, more []uint32) {
	for n := min(len(f.shown), len(output)); keep < n && f.shown[keep] == output[keep]; {
		keep++
	}
	more = slices.Clone(output[keep:])
	f.shown = append(f.shown[:keep], more...)
	return keep, more
}

// extend makes the output that of the serving version.
func (f *follower) extend(keep int, more []uint32) {
	f.output = append(f.output[:keep], more...)
}

// processed shows what a processor was asked, and compares. before is a copy of the row that became after; nil where
// nobody follows.
func (f *follower) processed(output []uint32, before *[]float32, after []float32, e Effect) {
	if before == nil {
		return
	}
	w := f.t.shadow
	want := w.rowOf(after)
	keep, more := f.fresh(output)
	f.show(8*len(*before)+4*len(more), func() error {
		defer w.freeRows(before, want)
		f.extend(keep, more)
		got, err := f.seq.Processors[0].Run(f.prompt, f.output, *before)
		if err != nil {
			return err
		}
		f.compare(abi.KindLogits, len(f.output), func() (string, string) {
			return w.differentStep(*want, *before, e, got)
		})
		return nil
	})
}

// chose shows the candidates that a sampler was asked about, and compares.
func (f *follower) chose(step int, ids []uint32, values, logprobs []float32, index int) {
	if !f.room(12 * len(ids)) {
		return
	}
	ids, values, logprobs = slices.Clone(ids), slices.Clone(values), slices.Clone(logprobs)
	f.show(12*len(ids), func() error {
		s := f.seq.Sampler
		s.steps = step
		got, err := s.Choose(ids, values, logprobs)
		if err != nil {
			return err
		}
		f.compare(abi.KindSampler, step, func() (string, string) {
			if got == index {
				return "", ""
			}
			return fmt.Sprintf("chooses candidate %d instead of %d", got, index),
				f.t.shadow.tokens([]uint32{ids[got]}) + " instead of " + f.t.shadow.tokens([]uint32{ids[index]})
		})
		return nil
	})
}

// checked shows what a guard was shown, and compares the verdicts.
func (f *follower) checked(v *llm.GuardView, want llm.Verdict) {
	size := len(v.Text) + 4*len(v.Ends) + 8*len(want.Biases)
	if !f.room(size) {
		return
	}
	view := *v
	view.Text, view.Ends = slices.Clone(v.Text), slices.Clone(v.Ends)
	want.Biases, want.Tokens = slices.Clone(want.Biases), slices.Clone(want.Tokens)
	keep, more := f.fresh(v.Output)
	f.show(size+4*len(more), func() error {
		f.extend(keep, more)
		view.Prompt, view.Output = f.prompt, f.output
		got, err := f.seq.Guards[0].Check(&view)
		if err != nil {
			return err
		}
		f.compare(abi.KindGuard, len(f.output), func() (string, string) { return differentVerdict(want, got) })
		return nil
	})
}

// guessed shows what a drafter was asked, and compares the guesses.
func (f *follower) guessed(output []uint32, room int, guess []uint32) {
	if !f.room(4 * (len(guess) + room)) {
		return
	}
	guess = slices.Clone(guess)
	keep, more := f.fresh(output)
	f.show(4*(len(guess)+len(more)), func() error {
		f.extend(keep, more)
		own := make([]uint32, room)
		n, err := f.seq.Drafters[0].inner.Propose(f.prompt, f.output, own)
		if err != nil {
			return err
		}
		f.compare(abi.KindDraft, len(f.output), func() (string, string) {
			if slices.Equal(guess, own[:n]) {
				return "", ""
			}
			return fmt.Sprintf("guesses %d tokens, the serving version %d", n, len(guess)),
				f.t.shadow.tokens(own[:n]) + " instead of " + f.t.shadow.tokens(guess)
		})
		return nil
	})
}

// rewound takes the new version back with the serving one.
func (f *follower) rewound(output []uint32) {
	if f == nil || f.t.gone.Load() {
		return
	}
	keep, more := f.fresh(output)
	f.show(4*len(more), func() error {
		f.extend(keep, more)
		h := llm.History{Prompt: f.prompt, Output: f.output}
		for _, x := range f.seq.Processors {
			if err := x.Rewind(h); err != nil {
				return err
			}
		}
		if s := f.seq.Sampler; s != nil {
			return s.Rewind(h)
		}
		return nil
	})
}

// fork follows a sequence that goes on from this one's position.
func (f *follower) fork(seed uint64) *follower {
	if f == nil {
		return nil
	}
	twin := f.t.follower()
	if twin == nil {
		return nil
	}
	twin.shown = slices.Clone(f.shown)
	twin.show(4*len(twin.shown), func() error {
		s, err := f.seq.Fork(seed)
		if err != nil {
			return err
		}
		twin.seq, twin.prompt, twin.output, twin.end = s, f.prompt, slices.Clone(f.output), s.Release
		return nil
	})
	return twin
}

// differentStep says how the answer of a step differs from that of the serving version, "" where it does not. The
// second text tells tokens.
func (w *shadow) differentStep(want, got []float32, e, own Effect) (what, tokens string) {
	switch {
	case e.Stop != own.Stop:
		return fmt.Sprintf("ends the text: %t instead of %t", own.Stop, e.Stop), ""
	case e.Force != own.Force:
		name := func(force int64) string {
			if force < 0 {
				return "no token"
			}
			return w.tokens([]uint32{uint32(force)})
		}
		switch {
		case e.Force < 0:
			what = "forces a token, the serving version none"
		case own.Force < 0:
			what = "forces no token, the serving version one"
		default:
			what = "forces another token"
		}
		return what, name(own.Force) + " instead of " + name(e.Force)
	case math.Float32bits(e.Temperature) != math.Float32bits(own.Temperature) &&
		(e.Temperature == e.Temperature || own.Temperature == own.Temperature):
		return fmt.Sprintf("sets the temperature %v instead of %v", own.Temperature, e.Temperature), ""
	case e.Stop || e.Force >= 0:
		return "", ""
	}
	more, fewer, other, first := 0, 0, 0, -1
	for i, a := range want {
		b := got[i]
		if a == b || a != a && b != b {
			continue
		}
		if first < 0 {
			first = i
		}
		switch least := float32(math.Inf(-1)); {
		case b == least:
			more++
		case a == least:
			fewer++
		default:
			other++
		}
	}
	if first < 0 {
		return "", ""
	}
	return fmt.Sprintf("denies %d tokens more and %d fewer, and %d other logits differ", more, fewer, other),
		"first " + w.tokens([]uint32{uint32(first)})
}

// differentVerdict says how a guard's verdict differs, "" where it does not.
func differentVerdict(want, got llm.Verdict) (what, texts string) {
	switch {
	case want.Kind != got.Kind:
		return fmt.Sprintf("says %s instead of %s", got.Kind, want.Kind), ""
	case want.Position != got.Position:
		return fmt.Sprintf("says %s at position %d instead of %d", got.Kind, got.Position, want.Position), ""
	case want.Done != got.Done:
		return fmt.Sprintf("is done: %t instead of %t", got.Done, want.Done), ""
	case want.Text != got.Text || !slices.Equal(want.Tokens, got.Tokens):
		return fmt.Sprintf("says %s with another text", got.Kind), fmt.Sprintf("%.64q instead of %.64q", got.Text,
			want.Text)
	case want.Why != got.Why:
		return "gives another reason", fmt.Sprintf("%.64q instead of %.64q", got.Why, want.Why)
	case !slices.Equal(want.Biases, got.Biases):
		return fmt.Sprintf("gives %d biases that are not the serving version's %d", len(got.Biases),
			len(want.Biases)), ""
	}
	return "", ""
}

// tokens shows what tokens stand for.
func (w *shadow) tokens(ids []uint32) string {
	var text []byte
	for _, id := range ids[:min(len(ids), 16)] {
		text = append(text, w.apart.o.Vocabulary.Bytes(id)...)
	}
	return fmt.Sprintf("%.64q", text)
}
