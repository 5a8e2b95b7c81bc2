package plugins

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tgi/plugins/grammar"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
	"tgi/sdk/abi"
)

// ProgramHost does what a program asks for.
type ProgramHost = program.Host

// Program is the plugin of kind "program" of one request, at the version that was current when it was bound. Its texts
// may run at the same time. Close it after they ended.
type Program struct {
	set  *Set
	part *part
}

// FindProgram returns how many contexts the program that a request names may run at once, and its name; 0 if it names
// none.
func (s *Set) FindProgram(calls []Call) (name string, contexts int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range calls {
		if e := s.names[c.Name]; e != nil && e.current != nil && e.current.serves(abi.KindProgram) {
			return c.Name, e.current.guest.Description().Contexts
		}
	}
	return "", 0
}

// BindProgram picks the program that a request names, and asks it whether it accepts its parameters. rest are the other
// calls. nil means that no program is named. Errors are those of Bind.
func (s *Set) BindProgram(ctx context.Context, calls []Call) (p *Program, rest []Call, err error) {
	if err := s.mayName(ctx, calls...); err != nil {
		return nil, nil, err
	}
	client, request := s.client(ctx), s.request(ctx)
	at, v, err := s.selectProgram(calls, client, request)
	if err != nil || v == nil {
		return nil, calls, err
	}
	c := calls[at]
	p = &Program{set: s, part: &part{version: v, name: c.Name, params: c.Params, named: true, client: client,
		request: request, verdict: &verdict{}}}
	if err := p.part.admitChat(ctx, s); err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, slices.Delete(slices.Clone(calls), at, at+1), nil
}

// selectProgram finds the program among the calls, and takes a reference to its version.
func (s *Set) selectProgram(calls []Call, client, request string) (at int, v *version, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, nil, ErrClosed
	}
	for i, c := range calls {
		e := s.names[c.Name]
		if e == nil || e.current == nil || !e.current.serves(abi.KindProgram) {
			continue // others say what is wrong with it
		}
		if v != nil {
			return 0, nil, &BindError{c.Name, beside(calls[at].Name, "are programs, and a request has one"), ErrParams}
		}
		at, v = i, e.pick(client, request)
	}
	if v != nil {
		v.bind()
	}
	return at, v, nil
}

// BindOuter is Bind for a request whose texts a program writes: its guards, which read them, and the others, which the
// runs of the program have too. Of those nothing may begin. Either may be nil.
func (s *Set) BindOuter(ctx context.Context, calls []Call) (guards, others *Bound, err error) {
	if others, err = s.bind(ctx, calls, (*part).inner, (*Set).pickParts); err != nil {
		return nil, nil, err
	}
	guards, err = s.bind(ctx, calls, func(p *part) (bool, error) { return p.version.serves(abi.KindGuard), nil },
		(*Set).pickParts)
	if err != nil && others != nil {
		others.Close()
	}
	return guards, others, err
}

// BindInner is Bind for a run of a program, without guards: those read what the program emits. That calls name one is
// an error. others are what BindOuter returned for the request, still open: where the run has a plugin of these, it is
// at the version that the request has, and what applies always since is not the run's.
func (s *Set) BindInner(ctx context.Context, calls []Call, others *Bound) (*Bound, error) {
	return s.bind(ctx, calls, func(p *part) (bool, error) {
		in, _ := p.inner()
		if !in && p.named {
			return false, &BindError{p.name, "is a guard: it reads what the program emits, and a run has none", ErrParams}
		}
		return in, nil
	}, others.pickInner)
}

// pickInner is the picker of runs of the request whose plugins b are; nil for none.
func (b *Bound) pickInner(s *Set, _ *Bound, named map[string]*Call, calls []Call, client, request string) (
	parts []*part, err error) {
	kept := map[string]*part{}
	if b != nil {
		for _, k := range b.parts {
			kept[k.name] = k
			if k.version.settings.applies(client) {
				parts = append(parts, k.again().calledBy(named[k.name]))
			}
		}
	}
	for i, c := range calls {
		if k := kept[c.Name]; k != nil {
			if !k.version.settings.applies(client) {
				parts = append(parts, k.again().calledBy(&calls[i]))
			}
			continue
		}
		e, err := s.namedEntry(c.Name, client)
		if err != nil {
			return nil, err
		}
		if e != nil {
			parts = append(parts, e.part(&calls[i], client, request))
		}
	}
	return parts, nil
}

// again returns the part as a run has it.
func (p *part) again() *part {
	return &part{version: p.version, stable: p.stable, name: p.name, client: p.client, request: p.request,
		verdict: &verdict{}}
}

// InnerCalls are the calls of a request that its program's runs have too: all but those of guards.
func (s *Set) InnerCalls(calls []Call) (out []Call) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range calls {
		if e := s.names[c.Name]; e == nil || e.current == nil || e.current.inner() {
			out = append(out, c)
		}
	}
	return out
}

// inner reports whether the plugin takes part in runs of programs.
func (p *part) inner() (bool, error) { return p.version.inner(), nil }

func (v *version) inner() bool {
	return slices.ContainsFunc(v.kinds, func(kind string) bool { return kind != abi.KindGuard })
}

// Name returns the plugin's name.
func (p *Program) Name() string { return p.part.name }

// Run runs the program for one text. request is the JSON object of abi.Program without "params"; it is not kept. When
// ctx ends, so does the program. A text of the guest's is an ErrParams; other errors are those of Bind, and those of h
// as they are.
func (p *Program) Run(ctx context.Context, seed uint64, request []byte, h ProgramHost) error {
	t := p.set.programs.begin(p.part.client)
	defer t.end()
	request = guest.WithMember(request, "params", p.part.params)
	err := program.Run(p.part.version.guest, h, request, func(host any) (*guest.Session, error) {
		return p.part.version.guest.OpenProgram(p.part.seed(seed), ctx.Done(), guestTurn{t, ctx}, host)
	})
	var ended *program.Ended
	if errors.As(err, &ended) { // before its error, which may be the fault of a plugin of a run
		return ended.Err
	}
	var no *guest.Refusal
	switch {
	case err == nil, errors.As(err, &no):
		p.part.recordSuccess(p.set)
	}
	if no != nil {
		return p.part.bindError(shownText(no.Text), err, ErrParams)
	}
	var fault *sandbox.Fault
	if errors.As(err, &fault) || errors.Is(err, sandbox.ErrBusy) || errors.Is(err, sandbox.ErrMemory) ||
		errors.Is(err, sandbox.ErrClosed) {
		return p.part.chatError(ctx, p.set, err)
	}
	return err
}

// Note notes in the plugin's log why a program that was under way came to no good end, where that is no fault of its
// module.
func (p *Program) Note(why string) {
	s := p.set
	s.o.Logs.addSince(p.part.version.since, p.part.name, s.trialOf(p.part.version), "host", abi.LevelWarn,
		"tgi_program_run: "+why)
}

// maxShown is the most bytes of a program's error that its client sees.
const maxShown = 256

// shownText bounds a program's own text, which is long when a model wrote it, and takes its control characters out.
func shownText(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= maxShown {
		return text
	}
	end := maxShown - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// Close releases the program. Closing twice is not fine.
func (p *Program) Close() {
	p.part.cancelTrial()
	p.part.version.unref()
}

// Prefix returns how many bytes of text, from its beginning, a text of the grammar can begin with, and the work for
// what was not known, in the units of grammar.Limits. A grammar that a guest follows step by step cannot say so: the
// error is ErrParams. Others are those of Compile.
func (g *Grammar) Prefix(ctx context.Context, text []byte) (n int, work int64, err error) {
	if g.prepared.native == nil {
		return 0, 0, &BindError{g.part.name, "follows its grammar token by token and knows no prefixes of texts", ErrParams}
	}
	t := g.set.turns.begin(g.set.client(ctx))
	defer t.end()
	if !t.take(ctx) {
		return 0, 0, context.Cause(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	began, took := time.Now(), time.Duration(0)
	yield := func() {
		ran := time.Since(began)
		if ran < programSlice {
			return
		}
		if took += ran; took > maxPrefixTime {
			stop(&BindError{"", "the grammar takes too long to read the text", ErrParams})
			return
		}
		t.pause(ctx, ran)
		began = time.Now()
	}
	for s := g.prepared.native.Start(); n < len(text) && ctx.Err() == nil; yield() {
		part := text[n:min(n+prefixStep, len(text))]
		read, units := s.Follow(ctx, grammar.Effort{Yield: yield}, part)
		if n, work = n+read, work+units; read < len(part) {
			break // rejected, or too much to follow
		}
	}
	if ctx.Err() != nil {
		return 0, work, context.Cause(ctx)
	}
	return n, work, nil
}

// The bytes between two looks at the time, and what reading a text may take, without the pauses. A program that has a
// grammar read gets half of a processor, as one that computes.
const (
	prefixStep    = 64
	maxPrefixTime = time.Second
)

// programSlice is how long a program may keep a processor while another one waits for it.
const programSlice = time.Millisecond

// NewProgramTurns makes one that shares half of the processors among programs.
func NewProgramTurns() *Turns {
	t := NewTurns()
	t.slice, t.free = programSlice, max(1, (t.free+1)/2)
	return t
}
