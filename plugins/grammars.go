package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// GrammarCall is a grammar as a request names it. Nothing of it is kept after Compile. Without a Plugin, the first in
// the order of List that knows the Language compiles it. Without a Language, it is in the first language of the Plugin.
type GrammarCall = llm.GrammarCall

// Dropped is a part of a source that the grammar does not enforce.
type Dropped = kind.Dropped

// Grammar is a request's grammar, compiled, or a guest that follows it, at the version that was current. Its methods
// may be called from any goroutine at the same time. Close it; its sequences outlive that.
type Grammar struct {
	set      *Set
	part     *part
	call     GrammarCall // of a guest that computes masks
	prepared *preparedGrammar
	used     Used
	spent    maskTime // by all its texts
	open     atomic.Int64
	once     sync.Once
}

// Compile prepares a grammar. Those that were compiled before, by the same plugin from the same source, are remembered,
// and requests that want the same at the same time wait for one compilation. It runs on a goroutine of its own, within
// the plugin's fuel per request and the limits of package grammar, and shares the processors with others as [Turns]
// says. Errors are those of Bind; ErrParams if the plugin refuses the source or the result is too costly. When ctx
// ends, the wait ends, and so does the compilation unless others wait for it.
func (s *Set) Compile(ctx context.Context, c GrammarCall) (*Grammar, error) {
	if err := s.mayName(ctx, Call{Name: c.Plugin}); err != nil {
		return nil, err
	}
	p, language, err := s.selectGrammarPart(ctx, c)
	if err != nil {
		return nil, err
	}
	g := &Grammar{set: s, part: p, call: GrammarCall{Language: language, Source: c.Source, Params: c.Params},
		used: p.used(abi.KindGrammar), spent: maskTime{most: s.o.GrammarTime}}
	g.open.Store(1)
	if len(c.Params) > 0 && !isObject(c.Params) {
		err = &BindError{p.name, "params is not a JSON object", ErrParams}
	} else {
		g.prepared, err = s.grammars.get(ctx, p, p.grammarKey(g.call),
			func(ctx context.Context, t *turn) (*preparedGrammar, error) { return s.build(ctx, t, p, g.call) })
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	if g.prepared.native != nil {
		p.compiled(g.call, g.prepared.form, g.prepared.dropped)
		g.call, g.part = GrammarCall{}, nil
		p.tally.release()
		p.version.unref() // the guest is not needed any more
	} else {
		g.call.Source, g.call.Params = slices.Clone(c.Source), slices.Clone(c.Params)
	}
	return g, nil
}

// selectGrammarPart selects the plugin that compiles, takes a reference to its version, and returns the language.
func (s *Set) selectGrammarPart(ctx context.Context, c GrammarCall) (p *part, language string, err error) {
	client, request := s.client(ctx), s.request(ctx)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, "", ErrClosed
	}
	v, name := (*version)(nil), c.Plugin
	if name == "" {
		i := slices.IndexFunc(s.order, func(e *entry) bool {
			return e.current != nil &&
				e.current.readsLanguage(c.Language)
		})
		if i < 0 {
			known := s.languages()
			return nil, "", &BindError{"", fmt.Sprintf("none of those installed knows grammars in the language %.64q, "+
				"but in %q", c.Language, known), &Misnamed{c.Language, known, ErrUnknown}}
		}
		v, name = s.order[i].pick(client, request), s.order[i].name
	} else if v, err = s.serving(name, client, request); err != nil {
		return nil, "", err
	}
	switch {
	case !v.serves(abi.KindGrammar):
		return nil, "", &BindError{name, fmt.Sprintf("serves %q, kind %q is wanted", v.kinds, abi.KindGrammar),
			ErrParams}
	case c.Language == "":
		language = v.guest.Description().Languages[0]
	case !v.readsLanguage(c.Language):
		known := v.guest.Description().Languages
		return nil, "", &BindError{name, fmt.Sprintf("does not know grammars in the language %.64q, but in %q",
			c.Language, known), &Misnamed{c.Language, known, ErrParams}}
	default:
		language = c.Language
	}
	v.bind()
	return &part{version: v, name: name, params: c.Params, named: c.Plugin != "", client: client, request: request,
		tally: s.names[name].follow(request), verdict: &verdict{}}, language, nil
}

// languages lists those that some plugin reads grammars in, each once. The lock is held.
func (s *Set) languages() (list []string) {
	for _, e := range s.order {
		if e.current != nil && e.current.serves(abi.KindGrammar) {
			list = append(list, e.current.guest.Description().Languages...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// readsLanguage reports whether a version reads grammars in a language.
func (v *version) readsLanguage(language string) bool {
	return v.serves(abi.KindGrammar) && slices.Contains(v.guest.Description().Languages, language)
}

// grammarKey is the cache key of a call: modules with the same bytes and settings compile to the same grammar.
func (p *part) grammarKey(c GrammarCall) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, field := range []string{p.name, p.version.key, c.Language, string(c.Source), string(c.Params)} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(field)))
		h.Write(n[:])
		h.Write([]byte(field))
	}
	h.Sum(key[:0])
	return key
}

// build asks the breaker and the guest, and prepares what the guest compiled.
func (s *Set) build(ctx context.Context, t *turn, p *part, c GrammarCall) (*preparedGrammar, error) {
	// another request may wait for this one's trial
	p = &part{version: p.version, name: p.name, params: p.params, named: p.named, client: p.client, request: p.request,
		verdict: &verdict{}}
	if refused := p.admit(); refused != "" {
		return nil, &BindError{p.name, refused, ErrOff}
	}
	defer p.cancelTrial()
	err := p.validate(ctx, s, func() error {
		return p.chatError(ctx, s, p.version.guest.ValidateShared(ctx.Done(), p.params, guestTurn{t, ctx}))
	})
	if err != nil {
		return nil, err
	}
	if p.version.guest.Description().Steps() {
		return &preparedGrammar{masks: &maskMemory{}}, nil
	}
	out, err := s.compileSource(ctx, t, p, c)
	if err != nil {
		return nil, err
	}
	p.recordSuccess(s)
	return s.prepare(ctx, t, p.name, out)
}

// compileSource has the guest compile a source.
func (s *Set) compileSource(ctx context.Context, t *turn, p *part, c GrammarCall) (out kind.Compiled, err error) {
	session, err := p.version.guest.OpenShared(p.seed(0), ctx.Done(), guestTurn{t, ctx})
	if err != nil {
		return out, p.chatError(ctx, s, err)
	}
	out, err = kind.Compile(session, c)
	session.Close() // nobody needs its memory any more
	if costly := p.tooCostly(err, "compile", len(c.Source)); costly != nil {
		return out, costly
	}
	if err != nil {
		return out, p.chatError(ctx, s, err)
	}
	return out, nil
}

// prepare makes a compiled grammar ready for sequences.
func (s *Set) prepare(ctx context.Context, t *turn, name string, out kind.Compiled) (*preparedGrammar, error) {
	v, p := s.vocabulary(), pace(s.account, t)
	g, err := v.Compile(ctx, out.Grammar, grammar.Limits{Memory: grammarMemory, Yield: func() { p.yield(ctx) }})
	p.charge()
	switch {
	case err == nil:
		return &preparedGrammar{native: g, form: out.Form, dropped: out.Dropped,
			baseBytes: int64(out.Size) * nodeBytes}, nil
	case ctx.Err() != nil:
		return nil, cancelCause(ctx, err)
	}
	return nil, &BindError{name, err.Error(), ErrParams} // no text, no such token, or too costly
}

// Dropped returns the parts of the source that the grammar does not enforce. The caller must not change them.
func (g *Grammar) Dropped() []Dropped { return g.prepared.dropped }

// Close ends the grammar's use by its request; its sequences go on. Closing twice is fine.
func (g *Grammar) Close() {
	g.once.Do(func() {
		g.unref()
		g.set.grammars.settle()
	})
}

// unref drops a reference; the last one releases the version.
func (g *Grammar) unref() {
	if g.open.Add(-1) == 0 && g.part != nil {
		g.part.tally.release()
		g.part.version.unref()
	}
}

// Sequence begins a text of the grammar. It is to be closed. seed is for a guest that follows it; when ctx ends, so
// does a call of that guest, then or later. Errors are those of Compile. g is not closed yet.
func (g *Grammar) Sequence(ctx context.Context, seed uint64) (*Constraint, error) {
	if g.prepared.native != nil {
		return &Constraint{state: g.prepared.native.Start(), counts: &g.set.grammars.masks, turns: g.set.turns,
			quick: quickMask, ctx: ctx, client: g.set.client(ctx), spent: &g.spent,
			account: g.set.account}, nil
	}
	p := &part{version: g.part.version, name: g.part.name, client: g.part.client, request: g.part.request,
		verdict: g.part.verdict}
	if refused := p.admit(); refused != "" {
		return nil, &BindError{p.name, refused, ErrOff}
	}
	c := &Constraint{grammar: g, part: p, ctx: ctx, seed: seed}
	t := g.set.turns.begin(p.client)
	defer t.end()
	err := c.begin(func(seed uint64, cancel <-chan struct{}) (*guest.Session, error) {
		return p.version.guest.OpenShared(seed, cancel, guestTurn{t, ctx})
	})
	if err != nil {
		p.cancelTrial()
		return nil, err
	}
	c.session.EndTurn()
	g.open.Add(1)
	c.follower = g.part.stepping(g.call, seed)
	return c, nil
}

// stepError turns an error of a guest that computes masks into the request's, and counts a fault.
func (c *Constraint) stepError(err error) error {
	var fault *sandbox.Fault
	switch {
	case errors.Is(err, sandbox.ErrCancelled):
		return cancelCause(c.ctx, err)
	case errors.As(err, &fault):
		c.faulty = true
	case errors.Is(err, kind.ErrRejected):
		return err
	}
	return c.part.chatError(c.ctx, c.grammar.set, err)
}
