package plugins

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync/atomic"

	"tgi/plugins/draft"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

// Sequence is the plugins of one sequence, ready for its steps.
type Sequence struct {
	Processors []*Processor // in the order of the chain
	Sampler    *Sampler     // nil when no plugin picks the token
	Guards     []*Guard     // in the order in which they are asked
	Drafters   []*Drafter   // likewise

	bound    *Bound
	sequence *sequence
}

// States of a sequence.
const (
	begun     int32 = iota // Close ends it
	handedOut              // Release does
	released
)

type sequence struct {
	state atomic.Int32
	runs  []*run
}

// run is one plugin in one sequence. One goroutine at a time uses it; nothing of it is shared with other sequences.
type run struct {
	bound     *Bound
	part      *part
	session   *guest.Session
	stopped   bool // no further calls: err says why, nil that the sequence goes on without the plugin
	err       error
	succeeded bool // a step succeeded
	faulty    bool
	processor *logits.Processor // of the session, where it serves the kind
	sampler   *logits.Sampler   // likewise
	past      *history          // nil where no guard takes tokens back
	follower  *follower         // of a shadow; nil for none
	step      int               // the position that its plugin was last asked about, counted from the first token after the prompt
}

// Heal says that the prompt of Begin lacks the last tokens of the client's, whose text the outputs begin with again:
// guards, which judge what comes behind the client's prompt, begin with all of it. It is called before Begin, and keeps
// the tokens.
func (b *Bound) Heal(tokens []uint32) {
	if b != nil {
		b.healed = tokens
	}
}

// promptOf is the prompt that a plugin begins with, where that of Begin is the given one.
func (b *Bound) promptOf(p *part, prompt []uint32) []uint32 {
	if len(b.healed) == 0 || !p.version.serves(abi.KindGuard) {
		return prompt
	}
	return slices.Concat(prompt, b.healed)
}

// Begin begins a sequence for each of the seeds: each plugin begins the first one, and the others start as copies of it
// with random numbers of their own. maxNew is the most tokens that a sequence can get (0: unknown); prompt is not kept.
// When ctx ends, so does a call that runs, then or at any later step. Errors are those of Bind; after one nothing has
// begun. The Bound must still be closed.
func (b *Bound) Begin(ctx context.Context, prompt []uint32, maxNew int, seeds []uint64) error {
	if b.ctx != nil || len(seeds) == 0 {
		panic("BUG: begun twice, or without a sequence")
	}
	b.ctx = ctx
	seqs := make([]sequence, len(seeds))
	for _, p := range b.parts {
		if p.skipped {
			continue
		}
		sessions, err := b.beginPart(ctx, p, prompt, maxNew, seeds)
		if err != nil {
			for i := range seqs {
				seqs[i].close()
			}
			return err
		}
		for i, s := range sessions {
			r := &run{bound: b, part: p, session: s}
			if b.rewinds() && !p.version.serves(abi.KindGuard) && !p.version.serves(abi.KindDraft) {
				first := seeds[0]
				if !p.version.guest.CanClone() {
					first = seeds[i]
				}
				r.remember(p.start(ctx, prompt, maxNew, first), p.seed(seeds[i]))
			}
			seqs[i].runs = append(seqs[i].runs, r)
		}
	}
	b.seqs = seqs
	b.open.Add(int64(len(seqs)))
	for _, p := range b.parts {
		b.shadow(p, prompt, maxNew, seeds)
	}
	return nil
}

// beginPart returns a plugin's session for each seed, of the version that serves where its canary fails, or none where
// the request goes on without it.
func (b *Bound) beginPart(ctx context.Context, p *part, prompt []uint32, maxNew int, seeds []uint64) ([]*guest.Session,
	error) {
	sessions, err := p.begin(ctx, b.set, b.promptOf(p, prompt), maxNew, seeds)
	if p.fallBack(b.set, err) {
		if err := b.admit(ctx, p); err != nil || p.skipped {
			return nil, err
		}
		sessions, err = p.begin(ctx, b.set, b.promptOf(p, prompt), maxNew, seeds)
	}
	return sessions, b.handleError(ctx, p, err)
}

// shadow has the shadow of a plugin, if any, follow the sequences that began.
func (b *Bound) shadow(p *part, prompt []uint32, maxNew int, seeds []uint64) {
	if p.tally == nil || p.skipped {
		return
	}
	var runs []*run
	for i := range b.seqs {
		for _, r := range b.seqs[i].runs {
			if r.part == p {
				runs = append(runs, r)
			}
		}
	}
	p.tally.begin(b, p, runs, b.promptOf(p, prompt), maxNew, seeds)
}

// begin returns a session for each seed, or none.
func (p *part) begin(ctx context.Context, set *Set, prompt []uint32, maxNew int, seeds []uint64) (out []*guest.Session,
	err error) {
	t := set.turns.begin(p.client)
	defer t.end()
	start := p.start(ctx, prompt, maxNew, 0)
	start.Turn = guestTurn{t, ctx}
	for i, seed := range seeds {
		start.Seed = p.seed(seed)
		var s *guest.Session
		if i > 0 {
			s, err = out[0].Clone(start.Seed, start.Cancel)
		}
		if i == 0 || errors.Is(err, sandbox.ErrHiddenState) {
			s, err = p.version.guest.Begin(start)
		}
		if err != nil {
			closeAll(out)
			return nil, err
		}
		// all or none, so that two requests never wait for each other
		if out = append(out, s); i == 0 && len(seeds) > 1 && p.version.guest.CanClone() {
			err = s.Reserve(len(seeds)-1, start.Cancel)
		}
		if err != nil {
			closeAll(out)
			return nil, err
		}
	}
	return out, nil
}

// start is what a sequence of the plugin begins with.
func (p *part) start(ctx context.Context, prompt []uint32, maxNew int, seed uint64) guest.Start {
	s := guest.Start{Kinds: p.version.steps, Params: p.params, Prompt: prompt, Cancel: ctx.Done(), Seed: p.seed(seed)}
	if maxNew > 0 {
		s.MaxTokens = len(prompt) + maxNew
	}
	return s
}

// rewinds reports whether a guard of the request may take tokens back.
func (b *Bound) rewinds() bool {
	return b.followed || slices.ContainsFunc(b.parts, func(p *part) bool {
		return !p.skipped && (p.version.rewinds() || p.stable != nil && p.stable.rewinds())
	})
}

// rewinds reports whether the version is a guard that may take tokens back.
func (v *version) rewinds() bool {
	g := v.guest.Description().Guard
	return v.serves(abi.KindGuard) && (g.Gives(abi.VerdictRewind) || g.Gives(abi.VerdictInsert))
}

func closeAll(list []*guest.Session) {
	for _, s := range list {
		s.Close()
	}
}

// seed returns the plugin's own random numbers in a sequence: two plugins of one request must not draw alike.
func (p *part) seed(of uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.name))
	return of ^ h.Sum64()
}

// Sequence returns the plugins of sequence i; the caller must call its Release. It is called once for each sequence,
// after Begin and before Close.
func (b *Bound) Sequence(i int) Sequence {
	seq := &b.seqs[i]
	if !seq.state.CompareAndSwap(begun, handedOut) {
		panic("BUG: sequence handed out twice, or after Close")
	}
	out := Sequence{bound: b, sequence: seq}
	for _, r := range seq.runs {
		if r.part.version.serves(abi.KindLogits) {
			r.processor = logits.NewProcessor(r.session)
			out.Processors = append(out.Processors, &Processor{r, r.processor})
		}
		if r.part.version.serves(abi.KindSampler) {
			r.sampler = logits.NewSampler(r.session)
			out.Sampler = &Sampler{r: r, inner: r.sampler}
		}
		if r.part.version.serves(abi.KindGuard) {
			out.Guards = append(out.Guards, newGuard(r))
		}
		if r.part.version.serves(abi.KindDraft) {
			out.Drafters = append(out.Drafters, &Drafter{r, draft.NewProposer(r.session)})
		}
	}
	return out
}

// Names returns the names of the plugins that the sequence waits for, each once: all but those of kind "draft".
func (s Sequence) Names() (names []string) {
	for _, r := range s.sequence.runs {
		if !r.part.version.serves(abi.KindDraft) {
			names = append(names, r.part.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Release ends sequence i; see [Sequence.Release].
func (b *Bound) Release(i int) { b.release(&b.seqs[i]) }

// Release ends the sequence after the last use of its plugins: their instances go back. Releasing twice is fine.
func (s Sequence) Release() { s.bound.release(s.sequence) }

// ReleaseLater is Release on a goroutine that Set.Close awaits: closing an instance that
// failed unmaps its memory, which must not take the time of the engine's goroutine.
func (s Sequence) ReleaseLater() { s.bound.set.releasing.Go(s.Release) }

func (b *Bound) release(seq *sequence) {
	if seq.state.Swap(released) != released {
		b.end(seq)
	}
}

// end releases what a sequence holds, once.
func (b *Bound) end(seq *sequence) {
	seq.close()
	for _, r := range seq.runs {
		if r.succeeded && !r.faulty {
			r.part.verdict.good.Store(true)
		}
	}
	b.unref()
}

func (s *sequence) close() {
	for _, r := range s.runs {
		if r.session != nil {
			r.session.Close()
		}
		r.past.close()
		r.follower.close()
	}
}

// handleError handles the error of a call. It returns the sequence's error, nil when it goes on without the plugin.
func (r *run) handleError(err error) error {
	var fault *sandbox.Fault
	r.follower.leave()
	switch {
	case errors.Is(err, sandbox.ErrCancelled):
		r.err = cancelCause(r.bound.ctx, err)
	case !errors.As(err, &fault):
		r.err = err // the caller's mistake
	default:
		r.faulty = true
		r.part.recordFault(r.bound.set, err)
		if r.part.version.optional() {
			r.bound.skip(r.bound.ctx, r.part, r.part.errorText(err), err, r.step)
		} else {
			r.err = &failure{worded{err, r.part.outline(err)}, r.part.name}
		}
	}
	r.stopped = true
	return r.err
}
