package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/schema"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// MaxPerRequest is the most plugins that one request may have, those that apply always included. Each costs an instance
// per sequence and its time at every step.
const MaxPerRequest = 16

// Call names a plugin in one request. Its Params are not kept after Begin, for a BoundChat not after Close.
type Call = llm.PluginCall

// Skip is a plugin that failed and without which a request went on.
type Skip = llm.Skip

// Bound is the plugins of one request, at the versions that were current when it was bound. Begin comes at most once;
// Sequence and Release may then be called from any goroutine, for different sequences at the same time. Close it.
type Bound struct {
	// ctx is the context of the request, from Begin: a Bound is the state of one request. It is a field because the
	// steps of the token loop, which it ends too, have no context as a parameter.
	ctx context.Context

	set    *Set
	parts  []*part
	seqs   []sequence
	healed []uint32 // see Heal
	// followed says that the sequences are taken back by guards of another Bound, which a shadow follows.
	followed bool
	open     atomic.Int64 // the Bound until Close, and each sequence until its release
	once     sync.Once

	mu      sync.Mutex
	skipped []Skip
}

// part is one plugin in a request.
type part struct {
	version *version
	stable  *version // the one that serves, to fall back to, where version is of a canary; nil for none
	name    string
	params  []byte
	named   bool   // by the request
	skipped bool   // for the whole request; set before the first sequence begins
	client  string // that sent the request, "" if unknown
	request string // its name, "" if it has none
	tally   *tally // of the shadow of the version, nil for none
	trial   trial  // see breakers.admit
	verdict *verdict
}

// verdict is what a request says of a plugin: however many sequences and beams it has, they count once.
type verdict struct{ good, faulty, finished atomic.Bool }

// Bind selects the plugins of a request: first those that apply always, in the order of the settings, with the
// request's parameters where it names one; then the others that it names, in its order. It asks each whether it accepts
// its parameters. A plugin that only works on conversations can't be named: calls come from BindChat then. nil means
// that there are none. Errors are a [*BindError], ErrClosed, those of Options.MayName, or ctx's
// cause when it ended a call.
func (s *Set) Bind(ctx context.Context, calls []Call) (*Bound, error) {
	return s.bind(ctx, calls, nil, (*Set).pickParts)
}

// picker picks the plugins of a request, without references. The lock is held.
type picker func(s *Set, b *Bound, named map[string]*Call, calls []Call, client, request string) ([]*part, error)

// bind is Bind of those plugins that keep, if it is not nil, says, as pick picks them.
func (s *Set) bind(ctx context.Context, calls []Call, keep func(*part) (bool, error), pick picker) (*Bound, error) {
	if err := s.mayName(ctx, calls...); err != nil {
		return nil, err
	}
	b := &Bound{set: s}
	b.open.Store(1)
	if err := s.selectParts(ctx, b, calls, keep, pick); err != nil {
		return nil, err
	}
	if len(b.parts)+len(b.skipped) == 0 {
		return nil, nil
	}
	for _, p := range b.parts {
		if err := b.admit(ctx, p); err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

// selectParts selects the plugins of a request and takes a reference to each version. On an error it takes none.
func (s *Set) selectParts(ctx context.Context, b *Bound, calls []Call, keep func(*part) (bool, error),
	pick picker) error {
	client, request := s.client(ctx), s.request(ctx)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	named := map[string]*Call{}
	for i, c := range calls {
		if named[c.Name] != nil {
			return &BindError{c.Name, "is named twice", ErrParams}
		}
		named[c.Name] = &calls[i]
	}
	parts, err := pick(s, b, named, calls, client, request)
	if err != nil {
		return err
	}
	if err := checkParts(parts); err != nil {
		return err
	}
	for _, p := range parts {
		if keep != nil {
			in, err := keep(p)
			if err != nil {
				return err
			}
			if !in {
				continue
			}
		}
		b.parts = append(b.parts, p)
	}
	for _, p := range b.parts {
		p.version.bind()
		if p.stable != nil {
			p.stable.ref()
		}
		if e := s.names[p.name]; p.serves(e) { // not of a run that has an older version
			p.tally = e.follow(request)
		}
	}
	return nil
}

// serves reports whether the part is of a version that serves now, or is tried.
func (p *part) serves(e *entry) bool {
	return e != nil && (p.version == e.current || p.stable != nil && p.stable == e.current)
}

// pickParts is the picker of requests: the versions are those that serve.
func (s *Set) pickParts(b *Bound, named map[string]*Call, calls []Call, client, request string) (parts []*part,
	err error) {
	for _, e := range s.order {
		switch v := e.current; {
		case v != nil && v.settings.applies(client):
			parts = append(parts, e.part(named[e.name], client, request))
		case v != nil || !e.settings.applies(client):
		case e.settings.onError == OnErrorSkip:
			why := s.unavailableReason(e)
			b.skipped = append(b.skipped, Skip{Plugin: e.name, Reason: why, Outline: why})
		default: // a plugin that applies always is never left out because its module is damaged
			return nil, &BindError{e.name, s.unavailableReason(e), ErrOff}
		}
	}
	for i, c := range calls {
		switch e, err := s.namedEntry(c.Name, client); {
		case err != nil:
			return nil, err
		case e != nil && !e.current.settings.applies(client):
			parts = append(parts, e.part(&calls[i], client, request))
		}
	}
	return parts, nil
}

// namedEntry returns what a call of the token loop names, with a version that serves; nil where pickParts passed over
// it, for it applies always.
func (s *Set) namedEntry(name, client string) (*entry, error) {
	e := s.names[name]
	switch {
	case e == nil:
		return nil, s.unknownError(name)
	case e.current == nil && e.settings.applies(client):
		return nil, nil
	case e.current == nil:
		return nil, &BindError{name, s.unavailableReason(e), ErrOff}
	case len(e.current.steps) == 0:
		return nil, &BindError{name, e.current.usageHint(), ErrParams}
	}
	return e, nil
}

// part returns the entry's plugin as a request has it, at the version that is current or tried. c is nil where it is
// not named.
func (e *entry) part(c *Call, client, request string) *part {
	p := &part{version: e.pick(client, request), name: e.name, client: client, request: request, verdict: &verdict{}}
	if p.version != e.current {
		p.stable = e.current
	}
	return p.calledBy(c)
}

// calledBy notes the call that names the part; nil for none.
func (p *part) calledBy(c *Call) *part {
	if p.named = c != nil; p.named {
		p.params = c.Params
	}
	return p
}

// unknownError is the error for a name that no plugin has. The lock is held.
func (s *Set) unknownError(name string) error {
	text := "there is no plugin of this name"
	if slices.Contains(s.builtinNames(), name) {
		text += `: it is built in and becomes one by a block [[plugin]] with source = "` + Builtin + name + `"`
		return &BindError{name, text, ErrUnknown}
	}
	return &BindError{name, text, &Misnamed{name, slices.Sorted(maps.Keys(s.names)), ErrUnknown}}
}

// usageHint says where to name a plugin that does not run in the token loop.
func (v *version) usageHint() string {
	if slices.ContainsFunc(v.kinds, guest.Converses) {
		return "works on conversations: only chat requests can name it"
	}
	if v.serves(abi.KindProgram) {
		return "is a program: a request names it, and no run of another"
	}
	return "compiles grammars: a request names it beside its grammar"
}

func checkParts(parts []*part) error {
	if len(parts) > MaxPerRequest {
		return &BindError{"", fmt.Sprintf("%d for one request, the limit is %d", len(parts), MaxPerRequest), ErrParams}
	}
	sampler := ""
	for _, p := range parts {
		if !p.version.serves(abi.KindSampler) {
			continue
		}
		if sampler != "" {
			return &BindError{p.name, beside(sampler, "pick the token, and a request has one sampler"), ErrParams}
		}
		sampler = p.name
	}
	return nil
}

// beside says that a plugin cannot take part because of another one: what both do a request has only once.
func beside(other, both string) string { return "cannot take part beside " + other + ": both " + both }

// admit asks the breaker and the guest.
func (b *Bound) admit(ctx context.Context, p *part) error {
	refused := p.admit()
	if refused != "" && p.stable != nil {
		p.revert()
		refused = p.admit()
	}
	if refused != "" {
		if p.version.optional() {
			b.skip(ctx, p, refused, errSwitchedOff, noStep)
			p.skipped = true
			return nil
		}
		return &BindError{p.name, refused, ErrOff}
	}
	return p.validate(ctx, b.set, func() error {
		err := p.askGuest(ctx, b.set)
		if p.fallBack(b.set, err) {
			return b.admit(ctx, p)
		}
		return b.handleError(ctx, p, err)
	})
}

// askGuest has the guest check a request's parameters, by a turn.
func (p *part) askGuest(ctx context.Context, s *Set) error {
	t, err := s.turns.register(ctx, p.client)
	if err != nil {
		return sandbox.ErrCancelled
	}
	defer t.end()
	return p.version.guest.ValidateShared(ctx.Done(), p.params, guestTurn{t, ctx})
}

// longParams is the length from which parameters are checked against a schema in a turn: what is shorter takes less
// than it takes to wait.
const longParams = 4 << 10

// validate checks a request's parameters; ask has the guest check them.
func (p *part) validate(ctx context.Context, s *Set, ask func() error) error {
	if len(p.params) == 0 || string(p.params) == "{}" { // the self-test asked already
		if p.version.refusalText != "" {
			p.version.refused.Add(1)
			return &BindError{p.name, p.version.refusalText, ErrParams}
		}
		return nil
	}
	if !isObject(p.params) {
		return &BindError{p.name, "params is not a JSON object", ErrParams}
	}
	if err := p.checkInTurn(ctx, s); err != nil {
		return err
	}
	return ask()
}

// checkInTurn is checkSchema, in a turn of its own where that takes long. Nobody calls it with a processor.
func (p *part) checkInTurn(ctx context.Context, s *Set) error {
	if len(p.params) >= longParams {
		t := s.turns.begin(p.client)
		defer t.end()
		if !t.take(ctx) {
			return context.Cause(ctx)
		}
	}
	return p.checkSchema()
}

// checkSchema checks a request's parameters against the schema that the module declares, if any: a wrong one is refused
// before an instance is taken.
func (p *part) checkSchema() error {
	s := p.version.guest.Description().Schema
	if s == nil {
		return nil
	}
	var wrong *schema.Wrong
	if err := s.Check(p.params); !errors.As(err, &wrong) {
		return nil
	}
	p.version.refused.Add(1)
	if wrong.Unknown != "" && len(s.Names()) > 0 {
		return &BindError{p.name, wrong.Text, &Misnamed{wrong.Unknown, s.Names(), ErrParams}}
	}
	return &BindError{p.name, wrong.Text, ErrParams}
}

// handleError turns a plugin's error into the request's, or has the request go on without the plugin.
func (b *Bound) handleError(ctx context.Context, p *part, err error) error {
	var no *guest.Refusal
	var fault *sandbox.Fault
	if costly := p.tooCostly(err, "begin with its parameters", 0); costly != nil && p.hasParams() {
		return costly
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no):
		if p.named || !p.version.optional() {
			return p.bindError(no.Text, err, p.paramsError())
		}
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrMemory):
		p.recordMemoryFault(b.set, err)
		if !errors.As(err, &fault) || !p.version.optional() {
			return p.busyError(err)
		}
	case errors.Is(err, sandbox.ErrCancelled):
		return cancelCause(ctx, err)
	case errors.As(err, &fault):
		p.recordFault(b.set, err)
		fallthrough
	default:
		if !p.version.optional() {
			return p.bindError(p.errorText(err), err, ErrFault)
		}
	}
	b.skip(ctx, p, p.errorText(err), err, noStep)
	p.skipped = true
	return nil
}

// optional reports whether a request goes on without what the plugin does in the token loop while that is switched off,
// or once it fails: where its OnError is skip, and where it only guesses, which changes no text. What it does besides,
// as a template, tool parser, grammar or program, no request can go on without.
func (v *version) optional() bool {
	return v.settings.onError == OnErrorSkip || v.serves(abi.KindDraft)
}

// paramsError returns ErrParams, with the name of a parameter that is not in the plugin's schema, if any.
func (p *part) paramsError() error {
	var given map[string]json.RawMessage
	declared := p.version.guest.Description().Schema
	if declared == nil || len(declared.Names()) == 0 || json.Unmarshal(p.params, &given) != nil {
		return ErrParams
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(declared.Names(), name) {
			return &Misnamed{name, declared.Names(), ErrParams}
		}
	}
	return ErrParams
}

// busyError is the request's error when no instance, or no memory for one, is available.
func (p *part) busyError(err error) error {
	var short *sandbox.Shortage
	switch {
	case errors.As(err, &short) && short.Never:
		return p.bindError(p.errorText(err), err, ErrParams)
	case errors.Is(err, sandbox.ErrMemory):
		return p.bindError(p.errorText(err), err, ErrBusy)
	}
	return &BindError{p.name, "all its instances are in use", ErrBusy}
}

// errorText returns an error's text without the plugin's name in front.
func (p *part) errorText(err error) string { return strings.TrimPrefix(err.Error(), p.name+": ") }

// cancelCause returns why a guest's call was cancelled: the context's cause, or err without one.
func cancelCause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// admit asks the breakers and returns why they refuse the request, "" if they do not.
func (p *part) admit() (refused string) {
	p.trial, refused = p.version.breakers.admit(time.Now(), p.client, p.request)
	return refused
}

// cancelTrial ends the part's trial, if it is in one. Doing so twice is fine.
func (p *part) cancelTrial() {
	p.version.breakers.cancelTrial(p.trial)
	p.trial = trial{}
}

// recordMemoryFault counts a request whose instance was ended because it used too much memory, once. One that got no
// instance is not faulty.
func (p *part) recordMemoryFault(s *Set, err error) {
	if fault := (*sandbox.Fault)(nil); errors.As(err, &fault) && errors.Is(err, sandbox.ErrMemory) {
		p.recordFault(s, err)
	}
}

// recordFault counts a faulty request, once. The breakers do not count one that ran out of the memory of all plugins,
// which others use up too; a canary does, because the version that serves has the same neighbours.
func (p *part) recordFault(s *Set, err error) {
	if p.verdict.faulty.Swap(true) {
		return
	}
	s.o.Logs.addSince(p.version.since, p.name, s.trialOf(p.version), "host", abi.LevelWarn, p.errorText(err))
	if c := p.version.canary.Load(); c != nil && c.fault(p.errorText(err)) {
		s.aborted(p.name, p.version, c)
	}
	if errors.Is(err, sandbox.ErrMemory) {
		return
	}
	// Others are told of it, whose text that was not.
	if off := p.version.breakers.fault(time.Now(), p.client, p.outline(err), p.trial); off != "" {
		s.log.Warn("plugin switched off", "plugin", p.name, "sha256", p.version.sum(), "client", p.client, "why", off)
	}
}

// recordSuccess counts a request without a fault up to now.
func (p *part) recordSuccess(s *Set) {
	if p.verdict.faulty.Load() {
		return
	}
	if c := p.version.canary.Load(); c != nil && !p.verdict.finished.Swap(true) {
		c.finish()
	}
	if p.version.breakers.success(p.client, p.trial) {
		s.log.Info("plugin switched on again", "plugin", p.name, "sha256", p.version.sum())
	}
}

// errSwitchedOff is the cause when a plugin is skipped because its breaker is open.
var errSwitchedOff = errors.New("switched off")

// noStep is the step of a fault that came before the first step.
const noStep = -1

// skip records that a sequence, or the whole request, goes on without a plugin. Each cause is logged once per version:
// a plugin that fails at every request would fill the log.
func (b *Bound) skip(ctx context.Context, p *part, reason string, err error, step int) {
	p.version.totals.skips.Add(1)
	if p.version.firstSkip(err) {
		attrs := []any{"plugin", p.name, "sha256", p.version.sum(), "error", reason}
		if step != noStep {
			attrs = append(attrs, "step", step)
		}
		b.set.log.WarnContext(ctx, "plugin failed and was skipped; further failures of this cause are not logged",
			attrs...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.skipped, func(s Skip) bool { return s.Plugin == p.name }) {
		outline := reason
		if !errors.Is(err, errSwitchedOff) {
			outline = p.outline(err) + inLog
		}
		b.skipped = append(b.skipped, Skip{Plugin: p.name, Reason: reason, Outline: outline})
	}
}

// Guarded reports whether guards read the texts of the request. b may be nil.
func (b *Bound) Guarded() bool {
	return b != nil && slices.ContainsFunc(b.parts, func(p *part) bool { return p.version.serves(abi.KindGuard) })
}

// Skipped returns the plugins that failed and were skipped so far, each once with its first failure. It may be
// called at any time, even after Close.
func (b *Bound) Skipped() []Skip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.skipped)
}

// Close ends the request: sequences that were not handed out by Sequence end now, the others with their Release. The
// last of them releases the versions. Closing twice is fine.
func (b *Bound) Close() {
	b.once.Do(func() {
		for i := range b.seqs {
			if b.seqs[i].state.CompareAndSwap(begun, released) {
				b.end(&b.seqs[i])
			}
		}
		b.unref()
	})
}

// unref drops a reference; the last one releases the versions.
func (b *Bound) unref() {
	if b.open.Add(-1) > 0 {
		return
	}
	for _, p := range b.parts {
		if p.verdict.good.Load() {
			p.recordSuccess(b.set)
		}
		p.cancelTrial()
		p.tally.release()
		p.version.unref()
		if p.stable != nil {
			p.stable.unref()
		}
	}
}
