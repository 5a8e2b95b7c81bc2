package engine

import (
	"fmt"
	"slices"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Output turns tokens that a program emits into the events of a sequence: it decodes them, finds stop strings, ends at
// the length limit, and has guards decide what goes out. It belongs to one goroutine.
type Output struct {
	engine *Engine
	task   *pickTask // what asks the guards
	q      *sequence
	prompt int
	begun  time.Time
	// written are the tokens of Add that guards did not take back; some may be held.
	written []llm.Token
}

// emission is what a holdback knows of the tokens of a program.
type emission struct {
	from    int       // the output tokens before the last emission
	open    bool      // it goes on
	ending  bool      // the program is over
	refused *guardian // the guard that took tokens of it back
	missing *guardian // the one that took tokens of the emission before back, in whose place none came
}

// MaxWhole is how many tokens of one emission a guard may take back however little it holds back itself. It is below
// llm.MaxHold: no more tokens are held than guards have room for.
const MaxWhole = 128

// Refusal is the error of an emission that a guard took back.
type Refusal struct {
	Guard string
	// Left is how many of all emitted tokens are left: those of the emission are not among them, unless they went out.
	Left int
}

// Error implements error. Programs read Left out of it: plugins/std/goon does.
func (r *Refusal) Error() string {
	return fmt.Sprintf("guard %s takes it back; %d tokens are left of all that was emitted", r.Guard, r.Left)
}

// Output returns the output of sequence index of a request with the given prompt and settings, of which Stop,
// MaxNewTokens, IgnoreEOS and Seed matter. guards are asked behind each token, on the caller's goroutine, until End or
// an event with Finish.
func (s *Session) Output(index int, prompt []llm.Token, p llm.Params, guards []sample.Guard) *Output {
	e := s.engine
	q := &sequence{index: index, params: p, text: newTranscript(e.codec, prompt, p.Stop, 0),
		guards: newHoldback(guards, prompt, p.Stop)}
	if q.guards != nil {
		q.guards.emitted = &emission{}
	}
	return &Output{engine: e, prompt: len(prompt), begun: time.Now(), q: q,
		task: &pickTask{e: e, q: q, history: sample.History{Prompt: prompt}, cut: -1}}
}

// Begin begins an emission: what it Adds goes out as a whole where it has at most MaxWhole tokens, or not at all.
func (o *Output) Begin() {
	if h := o.q.guards; h != nil {
		h.emitted.from, h.emitted.open = len(h.output), true
	}
}

// Emitted is a token that a program emits, and what is known of it.
type Emitted struct {
	Token     llm.Token
	Logprob   float32
	Top       []TopToken
	Explained *llm.Explanation // nil for none
	// By is the program, where an explanation is to say that it wrote the token.
	By string
	// Whole says that it is the last of its emission.
	Whole bool
	// Ends says that it ends the text, as one of the model's does.
	Ends bool
}

// Add returns the events of one more token, which may be those of earlier ones, or none. The last event of the text has
// a Finish. A *Refusal takes the emission back, as far as it did not go out; the output goes on. Other errors wrap
// llm.ErrPlugin and end it.
func (o *Output) Add(x Emitted) ([]Event, error) {
	p := sample.Pick{Token: x.Token, Logprob: x.Logprob, Explained: x.Explained, Stop: x.Ends}
	if x.By != "" {
		p.Explained = llm.PickAlone(x.Token, o.engine.codec.Text(x.Token), llm.PickedProgram, x.By)
	}
	h := o.q.guards
	if o.written = append(o.written, x.Token); h == nil {
		return o.events(p, x.Top)
	}
	h.emitted.open = !x.Whole
	// The run that picked the token may name what a guard took back here.
	gone := slices.DeleteFunc(h.gone.Next(h.output, nil), func(id llm.Token) bool { return id == x.Token })
	if len(gone) > 0 {
		x.Top = slices.DeleteFunc(slices.Clone(x.Top), func(t TopToken) bool { return slices.Contains(gone, t.Token) })
	}
	if p.Explained != nil {
		e := *p.Explained // the run's own does not change: the program may emit the token again
		h.explain(&e)
		p.Explained = &e
	}
	return o.events(p, x.Top)
}

// End returns the last events of an output that no token ended: that of a token that ends a text, as a model's is, and
// those of tokens that guards held back. Where a guard took the last emission back, the end is the guard's: nothing
// came that it would let pass. Its errors are those of Add, but for refusals.
func (o *Output) End() ([]Event, error) {
	p := sample.Pick{Stop: true, Token: o.engine.endToken()}
	if h := o.q.guards; h != nil {
		*h.emitted = emission{from: len(h.output), ending: true, missing: h.emitted.missing}
	}
	return o.events(p, nil)
}

// TakenBack reports whether a guard took the last emission back, and nothing came in its place.
func (o *Output) TakenBack() bool { return o.q.guards != nil && o.q.guards.emitted.missing != nil }

// Written returns the tokens of Add that went out, or that a guard gave other text for: what the program said, as far
// as anybody got something of it. It is valid until the next Add.
func (o *Output) Written() []llm.Token {
	if h := o.q.guards; h != nil {
		return o.written[:min(len(o.written), h.released())]
	}
	return o.written
}

func (o *Output) events(p sample.Pick, top []TopToken) (out []Event, err error) {
	x := o.q.take(o.engine, p)
	x.top = top
	h := o.q.guards
	if h == nil {
		return []Event{o.event(x)}, nil
	}
	h.given = h.given[:0]
	err = catchPanic(func() error { _, err := o.task.guardPick(x); return err })
	for _, x := range h.given {
		out = append(out, o.event(x))
	}
	switch by := h.emitted.refused; {
	case err != nil:
	case by != nil:
		*h.emitted = emission{missing: by}
		o.written = o.written[:min(len(o.written), len(h.output))]
		err = &Refusal{Guard: by.rules.Name, Left: len(h.output)}
	default:
		h.emitted.missing = nil
	}
	return out, err
}

func (o *Output) event(x picked) Event {
	now := time.Since(o.begun)
	if !o.q.begun {
		o.q.begun, o.q.first = true, now
	}
	ev := Event{Index: o.q.index, Token: x.pick.Token, Logprob: x.pick.Logprob, Top: x.top, Text: x.text,
		Special: x.special, Explained: x.pick.Explained, Replaced: x.replaced,
		Timings: Timings{First: o.q.first, Total: now}}
	if x.fin.Reason != llm.FinishNone {
		fin := x.fin
		fin.Prompt, fin.Seed = o.prompt, o.q.params.Seed
		ev.Finish = &fin
	}
	return ev
}

// cutBy is the guard that ends the text of a program that is over by what it took back before, nil for none.
func (h *holdback) cutBy() *guardian {
	if h.emitted == nil || !h.emitted.ending {
		return nil
	}
	return h.emitted.missing
}

// whole is how many output tokens are no part of an emission that goes on.
func (h *holdback) whole() int {
	n := len(h.output)
	if e := h.emitted; e != nil && e.open && n-e.from < MaxWhole &&
		h.held[len(h.held)-1].fin.Reason == llm.FinishNone {
		return max(e.from, h.released())
	}
	return n
}

// refuse is what a rewind or an insertion is for a program, whose tokens no model picked: a rewind of its emission, or
// at least of the last token.
func (h *holdback) refuse(v llm.Verdict) llm.Verdict {
	at := min(v.Position, len(h.output)-1)
	if !h.emitted.ending {
		at = min(at, h.emitted.from)
	}
	return llm.Verdict{Kind: llm.VerdictRewind, Position: max(at, h.released())}
}
