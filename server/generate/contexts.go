package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/sdk/abi"
)

// Contexts are what a program works with: it is the host of package plugins/program. One goroutine uses it.
type Contexts struct {
	// ctx is the program's: the methods are those of an interface whose caller is a guest, which has no context.
	ctx context.Context

	service *Service
	run     *Run
	draft   *Draft
	bound   BoundProgram
	session *engine.Session
	params  llm.Params // of the runs that say nothing else
	index   int        // of the text

	list  [abi.MaxHandles]*handle
	forks int  // and renderings that were tried
	split bool // it tried to fork
	purse int
	runs  int       // started
	tells int       // explanations that runs may still ask for
	told  int       // explanations that went out
	name  string    // the program's
	rows  []*handle // that have a row of logits, the latest last

	// first is the first that had the prompt computed, cached how much of that the cache held.
	first  *engine.Span
	cached int

	begins   func(error) // called when the program has the model compute something, or ends
	out      *engine.Output
	release  func()                  // of the guards; nil for none
	stop     context.CancelCauseFunc // of the program
	last     Event                   // that ended the text
	finished bool
	slept    time.Duration // while it waited for the engine

	wrong *wrongGrammar // the last that was refused; nil behind a run or a text that went well
	lacks bool          // user code that it asked for failed, or is off
	gave  bool          // tokens to the client, or tried to
	saw   bool          // what the model computed, or could
	cut   bool          // the last run that gave tokens as they came ended where the model, or the purse, had no room
}

// handle is one context.
type handle struct {
	c     *engine.Context
	infos []tokenInfo // of the tokens from known on
	known int         // tokens in front, of which nothing is known
	code  BoundCode   // of the run under way; nil without user code
	// grammar is that of the run; nil without one.
	grammar *Grammar
	span    llm.ProgramSpan
	emits   bool       // its tokens go out as they come
	end     *tokenInfo // of the token that ended the last run, behind which nothing changed; nil without one
	told    bool       // Wait told the end of the last run
	no      error      // why its tokens go out no more; Wait tells
	cost    int        // tokens computed for it that the purse has not paid
	ahead   int        // tokens in front of its run under way that are computed for that
	tells   int        // explanations that the run may still give
	tight   bool       // the run may have fewer tokens than it wants

	ask     *question // under way
	answers answers

	computed int // tokens in front that were
}

// tokenInfo is what the client is told of a token.
type tokenInfo struct {
	logprob float32
	top     []engine.TopToken
	picked  bool // by a run
	why     *llm.Explanation
}

// infoOf is what an event of a run tells of its token.
func infoOf(ev *engine.Event) tokenInfo { return tokenInfo{ev.Logprob, ev.Top, true, ev.Explained} }

func (s *Service) newContexts(ctx context.Context, r *Run, d *Draft, bound BoundProgram, i int, session *engine.Session,
	stop context.CancelCauseFunc, embeddings []llm.Embedding) *Contexts {
	q := &r.Request
	h := &Contexts{ctx: ctx, service: s, run: r, draft: d, bound: bound, session: session, params: q.Params, index: i,
		purse: purseOf(q), stop: stop, tells: maxExplained / q.Sequences, name: q.program}
	h.params.Seed = llm.SeedFor(q.Params.Seed, i)
	var guards sample.Plugins
	if r.sequence != nil {
		guards = r.sequence(i)
	}
	h.out, h.release = session.Output(i, q.Prompt, h.params, guards.Guards), guards.Close
	h.list[0] = newHandle(session.New(slices.Clone(q.Prompt), embeddings))
	return h
}

func newHandle(c *engine.Context) *handle { return &handle{c: c, known: len(c.Tokens()), told: true} }

// close ends all contexts. err is the program's; without one that is returned the text ended well, with the event last.
func (h *Contexts) close(err error) (last Event, failed error) {
	h.session.Close()
	computed := purseOf(&h.run.Request) - h.purse
	for _, x := range h.list {
		if x != nil {
			computed += x.spent()
			h.closeCode(x)
		}
	}
	ends := err == nil && !h.finished
	if ends {
		if err = h.give(h.out.End()); h.cut && h.finished && h.last.Finish.Reason == llm.FinishEOS {
			h.last.Finish.Reason = llm.FinishLength
		}
	}
	h.checkCalls(ends)
	h.service.observe.Program(computed)
	h.run.programs.count(computed, h.cached, h.first != nil)
	if h.release != nil {
		h.release()
	}
	if err != nil && h.wrong != nil && errors.Is(err, llm.ErrPlugin) {
		err = h.wrong.blame(h.draft.Plugins, err)
	}
	if h.finished {
		err = nil
	}
	h.last.Index = h.index
	return h.last, err
}

// Idle reports whether the program has run, forked, asked and emitted nothing yet, and was refused no grammar, and no
// plugin because that failed or is off. It may have rendered, to see what has room.
func (h *Contexts) Idle() bool {
	return h.runs == 0 && !h.split && !h.saw && !h.gave && h.wrong == nil && !h.lacks
}

// TakenBack reports whether a guard took back what the program emitted last. If that is its end, also by an error, the
// text ends as a guard's stop ends it: what a program does that knows of no guards is to return why it could not emit.
func (h *Contexts) TakenBack() bool { return h.out.TakenBack() }

// argument refuses a call.
func argument(format string, args ...any) error { return refused(abi.ProgramArgument, format, args...) }

func refused(status int, format string, args ...any) error {
	return &llm.ProgramError{Status: status, Text: fmt.Sprintf(format, args...)}
}

// get returns a context.
func (h *Contexts) get(c int) (*handle, error) {
	if c < 0 || c >= len(h.list) || h.list[c] == nil {
		return nil, argument("there is no context %d", c)
	}
	return h.list[c], nil
}

// resting returns a context that rests.
func (h *Contexts) resting(c int) (*handle, error) {
	x, err := h.get(c)
	if err == nil && x.running() {
		err = argument("context %d runs", c)
	}
	return x, err
}

// Drop implements ctx_drop.
func (h *Contexts) Drop(c int) error {
	x, err := h.get(c)
	if err != nil {
		return err
	}
	h.purse -= x.spent()
	h.tells += x.tells // of a run under way, which has no last event
	if x.ask != nil && x.ask.c != x.c {
		x.ask.c.Drop()
	}
	x.c.Drop()
	h.closeCode(x)
	h.list[c] = nil
	h.rows = slices.DeleteFunc(h.rows, func(o *handle) bool { return o == x })
	return nil
}

// spent is how many tokens were computed that the purse has not paid: of a run under way, those in front of it, those
// that it gave, and one; of a question under way, all that may be.
func (x *handle) spent() int {
	if x.ask != nil {
		return x.cost + x.ask.at + len(x.ask.ids)
	}
	if x.c.Running() {
		return x.cost + x.ahead + len(x.c.Tokens()) - x.span.From + 1
	}
	return x.cost
}

// closeCode gives back the user code of a context's run.
func (h *Contexts) closeCode(x *handle) {
	if x.code != nil {
		h.run.addSkips(x.code.Skipped())
		x.code.Close()
		x.code = nil
	}
}

// Append implements ctx_append.
func (h *Contexts) Append(c int, text string, special bool) (int, error) {
	x, err := h.resting(c)
	if err != nil {
		return 0, err
	}
	tokens, err := h.encode(text, special, h.service.limits.MaxTotal-len(x.c.Tokens()))
	if err != nil {
		return 0, err
	}
	return len(tokens), h.push(x, tokens)
}

// encode returns the tokens of a text, most at most.
func (h *Contexts) encode(text string, special bool, most int) ([]llm.Token, error) {
	if text == "" {
		return nil, nil
	}
	o := llm.Encoding{Data: []Span{}, Most: max(most, 1)}
	if !special {
		o.Data = append(o.Data, Span{End: len(text)})
	}
	e, err := h.service.encode(h.ctx, text, o)
	if err != nil {
		return nil, err
	}
	if e.Tokens == nil || e.Count > most {
		return nil, refused(abi.ProgramRoom, "the text has %d tokens or more, there is room for %d", e.Count, max(most, 0))
	}
	return e.Tokens, nil
}

// Push implements ctx_push.
func (h *Contexts) Push(c int, ids []uint32) error {
	x, err := h.resting(c)
	if err != nil {
		return err
	}
	if err := h.checkTokens(ids); err != nil {
		return err
	}
	return h.push(x, ids)
}

func (h *Contexts) checkTokens(ids []uint32) error {
	for i, id := range ids {
		if uint64(id) >= uint64(h.service.limits.Vocab) {
			return argument("token %d is %d, the vocabulary has %d", i, id, h.service.limits.Vocab)
		}
	}
	return nil
}

func (h *Contexts) push(x *handle, ids []llm.Token) error {
	if n, most := len(x.c.Tokens()), h.service.limits.MaxTotal; len(ids) > most-n {
		return refused(abi.ProgramRoom, "%d tokens and %d more, the model has room for %d", n, len(ids), most)
	}
	x.changes()
	x.c.Append(ids)
	x.infos = append(x.infos, make([]tokenInfo, len(ids))...)
	return nil
}

// Tokens implements ctx_len and ctx_read.
func (h *Contexts) Tokens(c int) ([]uint32, error) {
	x, err := h.get(c)
	if err != nil {
		return nil, err
	}
	return x.c.Tokens(), nil
}

// Rewind implements ctx_rewind.
func (h *Contexts) Rewind(c, n int) error {
	x, err := h.resting(c)
	if err != nil {
		return err
	}
	have := len(x.c.Tokens())
	if n < x.c.Fixed() || n > have {
		return argument("position %d is not from %d, where images end, to %d", n, x.c.Fixed(), have)
	}
	if n == have {
		return nil
	}
	x.changes()
	x.computed = min(x.computed, n)
	x.c.Truncate(n)
	x.known = min(x.known, n)
	x.infos = x.infos[: n-x.known : n-x.known] // forks keep theirs
	return nil
}

// Start implements ctx_start.
func (h *Contexts) Start(c int, settings []byte) error {
	x, err := h.resting(c)
	if err != nil {
		return err
	}
	set, err := h.readSettings(settings)
	if err != nil {
		return err
	}
	h.closeCode(x) // of a run that ended and that nobody waited for
	h.settle(x)
	n := len(x.c.Tokens())
	switch {
	case h.purse < 1:
		return refused(abi.ProgramPurse, "all tokens that the program may have computed were")
	case n == 0:
		return argument("the context has no token")
	case set.from < -1 || set.from > n:
		return argument("grammar_from %d, the context has %d tokens", set.from, n)
	}
	p := set.params
	p.IgnoreEOS = p.IgnoreEOS && set.grammar == nil && !set.calls // a grammar says where its text ends
	p.Seed = llm.SeedFor(h.params.Seed, h.runs)
	if p.MaxNewTokens = min(p.MaxNewTokens, h.purse, h.service.limits.MaxTotal-n); p.MaxNewTokens < 1 {
		return refused(abi.ProgramRoom, "the context has %d tokens, the model has room for %d", n,
			h.service.limits.MaxTotal)
	}
	p.Explain.Tokens = min(p.Explain.Tokens, p.MaxNewTokens, h.tells)
	plug, err := h.bind(x, &set, p)
	if err != nil {
		return err
	}
	span, err := x.c.Start(engine.SpanRequest{Params: p, Plugins: plug, Deny: set.deny, By: h.name})
	if err != nil {
		h.closeCode(x)
		if errors.Is(err, llm.ErrTooLong) {
			return refused(abi.ProgramRoom, "%v", err)
		}
		return argument("%v", err)
	}
	h.runs++
	h.tells -= p.Explain.Tokens
	x.tells = p.Explain.Tokens
	x.tight = p.MaxNewTokens < set.params.MaxNewTokens
	h.begun(x, span)
	x.changes()
	x.ahead = n - min(x.computed, n) // until the first event tells
	x.span, x.emits, x.told, x.no = llm.ProgramSpan{From: n}, set.emit, false, nil
	return nil
}

// begun notes the span that has the prompt computed.
func (h *Contexts) begun(x *handle, span *engine.Span) {
	prompt, all := h.run.Request.Prompt, x.c.Tokens()
	if h.first == nil && len(all) >= len(prompt) && slices.Equal(all[:len(prompt)], prompt) {
		h.first = span
	}
}

// bind begins the user code of a run.
func (h *Contexts) bind(x *handle, set *runSettings, p llm.Params) (plug sample.Plugins, err error) {
	code := h.bound.BindRun(set.plugins)
	x.grammar = set.grammar
	h.placeCalls(x, set)
	w := Wanted{Prompt: x.c.Tokens(), MaxNew: p.MaxNewTokens, N: 1, Seed: p.Seed, Grammar: set.grammar,
		HoldCalls: set.calls, Afresh: true, Inner: true}
	if set.from >= 0 {
		w.Read = len(w.Prompt) - set.from
	}
	begun, err := code.Begin(h.ctx, &w)
	if err != nil {
		code.Close()
		status := abi.ProgramPlugin
		if set.grammar != nil {
			h.noteGrammar(set.grammar, err)
		}
		if set.grammar != nil || set.calls {
			status = abi.ProgramGrammar
		}
		return plug, h.codeError(err, status)
	}
	h.wrong = nil
	h.run.addUsed(begun.Used.Plugins)
	sequence := begun.Sequence
	if c := h.run.Request.CountPenalty; c != 0 {
		sequence = penalized(sequence, c)
	}
	if begun.Reasoning != nil && w.Read == 0 {
		sequence = h.service.bounded(sequence, begun.Reasoning, p.MaxNewTokens)
	}
	if sequence != nil {
		plug = sequence(0)
	}
	plug.Guards = nil // of plugins that are more than that
	if set.from >= 0 && plug.Masker != nil {
		for i, t := range x.c.Tokens()[set.from:] {
			if h.params.IgnoreEOS && h.session.Ends(t) { // of a run without a grammar, which it did not end
				continue
			}
			if err := sample.AcceptNow(plug.Masker, t); err != nil {
				if plug.Close != nil {
					plug.Close()
				}
				code.Close()
				return plug, refused(abi.ProgramGrammar, "token %d behind grammar_from: %v", i, err)
			}
		}
	}
	x.code = code
	return plug, nil
}

// codeError is what a program is told of an error of user code: it may do without, but not without its request.
func (h *Contexts) codeError(err error, status int) error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	h.lacks = h.lacks || errors.Is(err, llm.ErrPlugin)
	return refused(status, "%v", err)
}

// Wait implements wait.
func (h *Contexts) Wait(list []int, any bool) (at, generated int, err error) {
	if len(list) == 0 || len(list) > len(h.list) {
		return 0, 0, argument("%d contexts to wait for, it may be 1 to %d", len(list), len(h.list))
	}
	var wanted []*handle
	for _, c := range list {
		x, err := h.get(c)
		if err != nil {
			return 0, 0, err
		}
		wanted = append(wanted, x)
	}
	ended := func(x *handle) bool { return !x.running() }
	at = 0
	for any {
		if at = slices.IndexFunc(wanted, ended); at >= 0 {
			wanted = wanted[at : at+1]
			break
		}
		if err := h.pump(); err != nil {
			return 0, 0, err
		}
	}
	for _, x := range wanted {
		for !ended(x) {
			if err := h.pump(); err != nil {
				return 0, 0, err
			}
		}
		if !x.told {
			x.told = true
			generated += x.span.Count
			h.closeCode(x)
		}
		h.settle(x)
		err, x.no = errors.Join(err, x.no), nil
	}
	return at, generated, err
}

// settle has the purse pay for a context. It happens where the program learns of the end, so that what it may do does
// not depend on which run was the first.
func (h *Contexts) settle(x *handle) {
	h.purse -= x.cost
	x.cost = 0
}

// Slept implements program.Host.
func (h *Contexts) Slept() time.Duration { return h.slept }

// pump applies the next event of any context.
func (h *Contexts) pump() error {
	h.begins(nil)
	h.saw = true
	began := time.Now()
	ev, err := h.session.Next(h.ctx)
	h.slept += time.Since(began)
	if err != nil {
		return err
	}
	return h.apply(ev)
}

// apply counts an event of a run, and lets its token out if the run says so.
func (h *Contexts) apply(ev engine.SpanEvent) error {
	i := slices.IndexFunc(h.list[:], func(x *handle) bool {
		return x != nil && (x.c == ev.Span.Context || x.ask != nil && x.ask.c == ev.Span.Context)
	})
	if ev.Span == h.first {
		h.cached = min(ev.Cached, len(h.run.Request.Prompt))
	}
	if i < 0 {
		return h.runError(ev.Err)
	}
	x := h.list[i]
	if ev.Err != nil {
		return h.runError(blameRun(x.grammar, h.draft.Plugins, ev.Err))
	}
	if x.ask != nil {
		h.answered(x, &ev)
		return nil
	}
	x.ahead = max(x.span.From-ev.Cached, 0)
	if !ev.Dropped && !ev.Denied {
		x.infos = append(x.infos, infoOf(&ev.Event))
		x.span.Count++
		x.span.Logprob += float64(ev.Event.Logprob)
	}
	if ev.Event.Explained != nil {
		x.tells--
	}
	if ev.Last() {
		h.tells, x.tells = h.tells+x.tells, 0
		x.cost, x.ahead = x.cost+ev.Computed, 0
		x.computed = len(x.c.Tokens()) - 1
		if x.span.Reason, x.span.Denied = ev.Event.Finish.Reason, ev.Denied; ev.Dropped {
			info := infoOf(&ev.Event)
			x.span.Reason, x.span.End, x.end = llm.FinishEOS, ev.Event.Token, &info
		}
	}
	if !x.emits || ev.Dropped || ev.Denied {
		return nil
	}
	h.out.Begin()
	err := h.emit(engine.Emitted{Token: ev.Event.Token, Whole: true}, infoOf(&ev.Event))
	switch {
	case errors.As(err, new(*llm.ProgramError)):
		x.emits, x.no = false, err
		return nil
	case err == nil && ev.Last(): // what is emitted behind it is no part of it
		h.cut = x.tight && x.span.Reason == llm.FinishLength
	}
	return err
}

// runError is what an error of a run is to the request: where no plugin is named that failed, the program is, whose run
// it was.
func (h *Contexts) runError(err error) error {
	if !errors.Is(err, llm.ErrPlugin) || errors.As(err, new(outlined)) {
		return err
	}
	h.bound.RunFailed(err)
	return &runError{h.name, err}
}

// Span implements span.
func (h *Contexts) Span(c int) (llm.ProgramSpan, error) {
	x, err := h.resting(c)
	if err != nil {
		return llm.ProgramSpan{}, err
	}
	return x.span, nil
}

// GrammarPrefix implements grammar_prefix.
func (h *Contexts) GrammarPrefix(grammar, text []byte) (n int, work int64, err error) {
	g := h.draft.Grammar
	if len(grammar) > 0 {
		if g, err = readGrammar(grammar); err != nil {
			return 0, 0, err
		}
	}
	if len(grammar) == 0 && h.run.calls != callsFree {
		g = nil
	}
	if g == nil && (len(grammar) > 0 || h.run.calls != callsWhole) {
		return 0, 0, argument("grammar: there is none")
	}
	n, work, err = h.bound.GrammarPrefix(h.ctx, g, text)
	if err != nil {
		if g != nil {
			h.noteGrammar(g, err)
		}
		return 0, work, h.codeError(err, abi.ProgramGrammar)
	}
	h.wrong = nil
	return n, work, nil
}
