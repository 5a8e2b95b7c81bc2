package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/kv"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// Request is a request for one or more sequences from one prompt.
type Request struct {
	// Prompt holds at least one token of the vocabulary; it is copied.
	Prompt []llm.Token
	// Healed is what the client's prompt has behind Prompt and the output begins with; nil for nothing. It is not
	// copied. A beam search ignores it.
	Healed *Healed
	Params llm.Params
	// N is how many sequences are generated from the prompt, which is computed once; 0
	// is 1. Sequence i draws with the seed llm.SeedFor(Params.Seed, i). With a beam
	// search N is 1, and Params.NumReturn is the number of sequences returned.
	N int
	// Plugins returns the user code of sequence i; nil for none. Submit calls it once
	// for each i, or not at all if it refuses the request first. The engine owns the
	// result and calls its Close when the sequence ends, or the request is refused. A
	// beam search asks for sequence 0 and forks it for its beams.
	Plugins func(i int) sample.Plugins
	// Twins are more prompts, if there are any: each of the N sequences computes its output behind all of them, and
	// picks each token from the mix of their logits. Mix has a weight for Prompt and one for each of these. Beams and
	// Embeddings are not for them. They are copied.
	Twins [][]llm.Token
	Mix   sample.Mix
	// Prediction is what the output is expected to be, nil for nothing: guesses are taken from it. It is not copied.
	Prediction []llm.Token
	// Cancel, if not nil, asks running calls of the request's user code to end soon. The
	// engine calls it if it aborts the request during such a call.
	Cancel func()
	// Client names who the request is of, "" for none: clients share the cache, the batch
	// and the budget of a step fairly. It has no other meaning here.
	Client string
	// Share is the client's from now on, relative to that of others; 0 is 1.
	Share float64
	// Beneath says that the client's requests, from now on, give way to those of clients for which it is false.
	Beneath bool
	// Priority orders the client's requests that have not run yet: less goes first.
	Priority int
	// Salt separates requests that must not share cached prefixes: those of adapters.
	Salt string
	// Adapter is the model's number of the low-rank adapter that computes the request. It stays loaded until the
	// stream has ended. Salt is then not empty, and another one for each adapter.
	Adapter llm.Adapter
	// Embeddings are those of tokens of the prompt, in ascending order and without overlap. They are not copied.
	Embeddings []llm.Embedding
	// Unseen, if not nil, counts the tokens that are computed for the outputs and are in no event: those behind Twins,
	// those of other beams, and what guards hold back, took back or replaced. It is whole when the stream has ended.
	// What guesses got wrong is not in it. Below 0 where beams that are returned share tokens.
	Unseen *atomic.Int64
}

// sequence is the engine's state of one sequence; the scheduler's is seq.
type sequence struct {
	stream *Stream
	index  int
	params llm.Params
	chain  *sample.Chain
	done   func() // the plugins' Close until it was called
	text   *transcript
	healed *Healed    // nil for none
	guards *holdback  // nil without
	seq    *sched.Seq // nil until the inbox was drained
	search *search    // of a beam search, whose beams have the chains; otherwise nil
	mix    *mix       // of twins, otherwise nil
	span   *Span      // of a context's span; otherwise nil
	probe  *probe     // of a span that picks no token and has no chain
	guests []string   // of the chain, or of all beams' chains
	// onlyGuards says that no user code takes part in its picks: guests only decide what goes out.
	onlyGuards bool

	task     *pickTask     // reused by each step; nil before the first, and after one that was parked
	ownStep  *seqStep      // likewise
	inFlight *seqStep      // of a sequence with guests, or a mask that takes long, while it is under way
	latency  time.Duration // moving average of such steps; it begins with that of the slowest guest

	generated int
	begun     bool // it has an event
	dropped   bool // the token that ended it is no part of its context
	denied    bool // its span ended without one: see SpanRequest.Deny
	first     time.Duration

	drafting  *draft.Sequence // nil where nothing is drafted
	modelled  bool            // the draft model may guess
	tried     int             // tokens that there were when it was asked for the last time
	guessRest                 // from guesses
}

// job is a request in the inbox of the step goroutine.
type job struct {
	stream *Stream
	prompt []llm.Token
	twins  [][]llm.Token
	salt   string
	client string

	share    float64
	beneath  bool
	priority int

	adapter    llm.Adapter
	embeddings []llm.Embedding

	kept []kv.Block // the first blocks of the prompt, if they may be on disk
}

// Submit enqueues a request and returns the stream of its events at once. If it fails,
// nothing runs, and the error wraps llm.ErrInvalid, llm.ErrTooLong, llm.ErrOverloaded
// or llm.ErrClosed. When ctx is done the request is aborted, in the queue
// or between two steps, and its stream ends with ctx's cause. A reader that stops before
// the end must cancel ctx or call Stream.Close.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if r.N == 0 {
		r.N = 1
	}
	if err := e.check(r); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slots := max(r.N, r.Params.NumBeams) * (1 + len(r.Twins))
	if err := e.reserve(slots); err != nil {
		return nil, err
	}
	st := &Stream{engine: e, ready: make(chan struct{}, 1), live: slots, submitted: time.Now(), cancel: r.Cancel,
		unseen: r.Unseen}
	accepted := false
	defer func() { // also if user code panics in newJob
		if !accepted {
			st.release()
			e.release(slots)
		}
	}()
	j, err := e.newJob(st, r)
	if err != nil {
		return nil, err
	}
	if err := e.enqueue(j); err != nil {
		return nil, err
	}
	accepted = true
	st.watchContext(ctx)
	return st, nil
}

// check refuses requests that can never run.
func (e *Engine) check(r Request) error {
	if err := e.settings.Check(len(r.Prompt), r.Params.MaxNewTokens, r.N); err != nil {
		return err
	}
	if r.Params.PromptLogprobs && e.shape.LastOnly {
		return fmt.Errorf("%w: the model's graph gives no logits of the prompt, which decoder_input_details and echo with "+
			"logprobs need", llm.ErrInvalid)
	}
	if err := e.checkBeams(r); err != nil {
		return err
	}
	if err := e.checkTwins(r); err != nil {
		return err
	}
	if r.Adapter != llm.NoAdapter && r.Salt == "" {
		return fmt.Errorf("%w: BUG: engine: adapter %d has no salt", llm.ErrInvalid, r.Adapter)
	}
	if err := e.checkEmbeddings(r); err != nil {
		return err
	}
	return e.checkTokens("prompt", r.Prompt)
}

// checkTokens refuses tokens that the model does not have.
func (e *Engine) checkTokens(of string, prompt []llm.Token) error {
	for i, t := range prompt {
		if int(t) >= e.shape.Vocab {
			return fmt.Errorf("%w: %s token %d is %d, the vocabulary has %d", llm.ErrInvalid, of, i, t, e.shape.Vocab)
		}
	}
	return nil
}

// checkEmbeddings refuses embeddings that do not fit the prompt or the model.
func (e *Engine) checkEmbeddings(r Request) error {
	end, width := 0, e.shape.Width
	for i, m := range r.Embeddings {
		if m.At < end || m.N < 1 || m.End() > len(r.Prompt) || len(m.Vectors) != m.N*width || width == 0 ||
			m.Columns < 0 || m.Columns > 0 && m.N%m.Columns != 0 || m.Mutual && (m.End() == len(r.Prompt) ||
			r.Params.PromptLogprobs) {
			return fmt.Errorf("%w: BUG: engine: embedding %d has %d numbers for tokens %d to %d, after %d, of a prompt "+
				"of %d, in lines of %d, mutual: %t; the model takes %d for each", llm.ErrInvalid, i, len(m.Vectors), m.At,
				m.End(), end, len(r.Prompt), m.Columns, m.Mutual, width)
		}
		end = m.End()
	}
	return nil
}

// newJob creates the stream's sequences with their chains and transcripts.
func (e *Engine) newJob(st *Stream, r Request) (*job, error) {
	prompt := slices.Clone(r.Prompt)
	shown := r.Healed.behind(prompt)
	if r.Params.PromptLogprobs {
		st.prefill = make([]PromptToken, len(prompt))
		for i, t := range prompt {
			st.prefill[i] = PromptToken{Token: t, Text: e.codec.Text(t), Logprob: float32(math.NaN())}
		}
	}
	for i := range r.N {
		p := r.Params
		p.Seed = llm.SeedFor(r.Params.Seed, i)
		var plug sample.Plugins
		if r.Plugins != nil {
			plug = r.Plugins(i)
		}
		q := &sequence{stream: st, index: i, params: p, done: plug.Close, mix: newMix(r), healed: r.Healed}
		st.seqs = append(st.seqs, q)
		var err error
		if q.chain, err = sample.New(p, e.shape.Vocab, e.ends, plug); err != nil {
			return nil, err
		}
		q.guests = q.chain.Guests()
		if err := checkGuards(q.chain, p, plug.Guards); err != nil {
			return nil, err
		}
		q.guards = newHoldback(plug.Guards, shown, p.Stop)
		q.onlyGuards = len(plug.Guards) > 0 && len(q.guests) > 0 && len(plug.Processors) == 0 && plug.Masker == nil &&
			plug.Sampler == nil
		if p.BeamSearch() {
			if err := q.chain.CanFork(); err != nil {
				return nil, err
			}
			q.search = newSearch(q, prompt, len(e.ends))
			continue
		}
		q.text = newTranscript(e.codec, prompt, p.Stop, r.Healed.size())
		e.beginDrafting(q, r, plug)
	}
	j := &job{stream: st, prompt: prompt, twins: cloneTwins(r.Twins), salt: r.Salt, client: r.Client,
		share: r.Share, beneath: r.Beneath, priority: r.Priority, adapter: r.Adapter, embeddings: r.Embeddings}
	if len(r.Twins) == 0 {
		e.matchDisk(j, r.Params.PromptLogprobs)
	}
	return j, nil
}

// release closes the user code of the sequence once, as soon as none of it runs.
func (q *sequence) release() {
	if n := q.inFlight; n != nil {
		q.inFlight = nil
		n.drop()
		return
	}
	q.close()
}

// close closes the user code of the sequence; none of it may be running.
func (q *sequence) close() {
	closeOnce(&q.done)
	if q.search != nil {
		q.search.release()
	}
}

// closeOnce calls done, if it is not nil, and sets it to nil.
func closeOnce(done *func()) {
	if f := *done; f != nil {
		*done = nil
		_ = catchPanic(func() error { f(); return nil })
	}
}

// picked is a token of a sequence before its event is made.
type picked struct {
	pick    sample.Pick // without Top
	top     []TopToken
	text    string
	special bool
	// replaced says that the text is a guard's, which the token need not spell.
	replaced bool
	// cut says that the token has more than text, which ends with a stop string.
	cut bool
	// healed says that the token begins in the client's prompt, before its text.
	healed bool
	fin    llm.Finish // Reason is FinishNone, or those fields that the token and the text decide
}

// take appends the picked token to the sequence's text. The sequence has ended if there is a reason: the length limit
// is tested first, then the end-of-sequence tokens, then the stop strings, as text-generation-inference does it. In a
// span the limit is tested last: a program wants to know whether what it waits for came. It runs where the token was
// picked.
func (q *sequence) take(e *Engine, p sample.Pick) (x picked) {
	eos := p.Stop || e.eos[p.Token] && !q.params.IgnoreEOS
	left := q.healed.left(q.text.skip)
	x = picked{pick: p, top: e.topTokens(p.Top, left), special: e.codec.Special(p.Token) || eos}
	x.healed = left != "" && !x.special
	x.pick.Top = nil
	q.generated++
	fin := &x.fin
	full := q.generated >= q.params.MaxNewTokens
	switch {
	case full && q.span == nil:
		fin.Reason = llm.FinishLength
	case eos:
		fin.Reason, fin.StoppedBy = llm.FinishEOS, p.StoppedBy
	}
	if fin.Reason != llm.FinishNone {
		x.text = q.text.last(p.Token, x.special)
	} else if x.text, fin.Stop, fin.StopBytes = q.text.add(p.Token, x.special); fin.Stop != "" {
		fin.Reason = llm.FinishStop
		x.cut = !x.special && (q.text.rest != "" || q.text.detok.Open())
	} else if full {
		fin.Reason, x.text = llm.FinishLength, x.text+q.text.flush(x.special)
	}
	if fin.Reason != llm.FinishNone {
		fin.Text, fin.Generated = string(q.text.visible), q.generated
	}
	return x
}

// event returns the event of a token. It runs on the step goroutine.
func (q *sequence) event(x picked, now time.Time) Event {
	ev := Event{
		Index: q.index, Token: x.pick.Token, Logprob: x.pick.Logprob, Top: x.top, Text: x.text, Special: x.special,
		Explained: x.pick.Explained, Replaced: x.replaced, Healed: x.healed,
		Timings: Timings{Queued: q.stream.started.Sub(q.stream.submitted), Total: now.Sub(q.stream.submitted)},
	}
	if !q.begun {
		q.begun, q.first = true, ev.Timings.Total
		if q.index == 0 {
			ev.Prefill = q.stream.prefill
		}
	}
	ev.Timings.First = q.first
	if x.fin.Reason != llm.FinishNone {
		fin := x.fin
		fin.Prompt, fin.Cached, fin.Seed = len(q.seq.Prompt()), q.seq.Cached(), q.params.Seed
		if q.drafting != nil && !x.hides() {
			fin.AcceptedPrediction = q.drafting.Accepted[draft.Predicted]
			fin.RejectedPrediction = q.drafting.Rejected[draft.Predicted]
		}
		ev.Finish = &fin
	}
	return ev
}

// hides reports whether x ends a text of which guards keep something from the client. What became of a prediction is
// not told then: it may have been right about that.
func (x *picked) hides() bool {
	return x.fin.Rewound+x.fin.Replaced > 0 || x.fin.Reason == llm.FinishGuard || x.replaced && x.cut
}

// topTokens copies candidates, which are a view, for an event. Those that begin in the client's prompt, of which left
// is still to be written, have the text behind it.
func (e *Engine) topTokens(c []sample.Candidate, left string) []TopToken {
	if len(c) == 0 {
		return nil
	}
	out := make([]TopToken, len(c))
	for i, t := range c {
		out[i] = TopToken{Token: t.Token, Logprob: t.Logprob, Special: e.codec.Special(t.Token)}
		out[i].Text, out[i].Replaced = beyond(e.codec.Text(t.Token), left)
	}
	return out
}
