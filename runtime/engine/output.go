package engine

import (
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Output turns tokens that a program emits into the events of a sequence: it decodes them, finds stop strings and ends
// at the length limit. It belongs to one goroutine.
type Output struct {
	engine *Engine
	q      *sequence
	prompt int
	begun  time.Time
}

// Output returns the output of sequence index of a request with the given prompt and settings, of which Stop,
// MaxNewTokens, IgnoreEOS and Seed matter.
func (s *Session) Output(index int, prompt []llm.Token, p llm.Params) *Output {
	e := s.engine
	return &Output{engine: e, prompt: len(prompt), begun: time.Now(),
		q: &sequence{index: index, params: p, text: newTranscript(e.codec, prompt, p.Stop, 0)}}
}

// Add returns the event of one more token. It is the last if its Finish is set.
func (o *Output) Add(t llm.Token, logprob float32, top []TopToken) Event {
	ev := o.event(sample.Pick{Token: t, Logprob: logprob})
	ev.Top = top
	return ev
}

// End returns the last event of an output that no token ended: that of a token that ends a text, as a model's is.
func (o *Output) End() Event {
	p := sample.Pick{Stop: true}
	if len(o.engine.ends) > 0 {
		p.Token = o.engine.ends[0]
	}
	return o.event(p)
}

func (o *Output) event(p sample.Pick) Event {
	x := o.q.take(o.engine, p)
	now := time.Since(o.begun)
	if !o.q.begun {
		o.q.begun, o.q.first = true, now
	}
	ev := Event{Index: o.q.index, Token: p.Token, Logprob: p.Logprob, Text: x.text, Special: x.special,
		Timings: Timings{First: o.q.first, Total: now}}
	if x.fin.Reason != llm.FinishNone {
		fin := x.fin
		fin.Prompt, fin.Seed = o.prompt, o.q.params.Seed
		ev.Finish = &fin
	}
	return ev
}
