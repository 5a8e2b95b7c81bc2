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
	set   *Set
	parts []*part
	seqs  []sequence
	ctx   context.Context // of Begin
	open  atomic.Int64    // the Bound until Close, and each sequence until its release
	once  sync.Once

	mu      sync.Mutex
	skipped []Skip
}

// part is one plugin in a request.
type part struct {
	v      *version
	name   string
	params []byte
	named  bool   // by the request
	out    bool   // passed over from the start; written before the first sequence begins
	client string // whose request it is, "" where nobody knows
	trial  trial  // see breaker.admit
}

// Bind picks the plugins of a request: first those that apply always, in the order of the settings, with the request's
// parameters where it names one; then the others that it names, in its order. It asks each whether it accepts its
// parameters. A plugin that only works on conversations can't be named: calls come from BindChat then. nil means that there
// are none. Errors are a [*BindError], ErrClosed, or ctx's cause when it ended a call.
func (s *Set) Bind(ctx context.Context, calls []Call) (*Bound, error) {
	b := &Bound{set: s}
	b.open.Store(1)
	if err := s.pick(b, calls, s.client(ctx)); err != nil {
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

// pick makes the parts of a request, each with a reference to its version, or none.
func (s *Set) pick(b *Bound, calls []Call, client string) error {
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
	var parts []*part
	add := func(v *version, name string, c *Call) {
		p := &part{v: v, name: name, named: c != nil, client: client}
		if c != nil {
			p.params = c.Params
		}
		parts = append(parts, p)
	}
	for _, e := range s.order {
		switch v := e.current; {
		case v != nil && v.set.apply == ApplyAlways:
			add(v, e.name, named[e.name])
		case v != nil || e.set.apply != ApplyAlways:
		case e.set.onError == OnErrorSkip:
			b.skipped = append(b.skipped, Skip{Plugin: e.name, Reason: e.absent()})
		default: // what an operator applies to all must not be passed by because its module is damaged
			return &BindError{e.name, e.absent(), ErrOff}
		}
	}
	for i, c := range calls {
		e := s.names[c.Name]
		switch {
		case e == nil:
			return s.unknown(c.Name)
		case e.current == nil && e.set.apply == ApplyAlways: // passed over above
		case e.current == nil:
			return &BindError{c.Name, e.absent(), ErrOff}
		case len(e.current.steps) == 0:
			return &BindError{c.Name, e.current.elsewhere(), ErrParams}
		case e.current.set.apply != ApplyAlways:
			add(e.current, c.Name, &calls[i])
		}
	}
	if err := checkParts(parts); err != nil {
		return err
	}
	for _, p := range parts {
		p.v.hold()
	}
	b.parts = parts
	return nil
}

// unknown is the error of a name that no plugin has. The lock is held.
func (s *Set) unknown(name string) error {
	text := "there is no plugin of this name"
	if slices.Contains(s.builtins(), name) {
		text += `: it is built in and becomes one by a block [[plugin]] with source = "` + Builtin + name + `"`
		return &BindError{name, text, ErrUnknown}
	}
	return &BindError{name, text, &Misnamed{name, slices.Sorted(maps.Keys(s.names)), ErrUnknown}}
}

// elsewhere says where a plugin that has no part in the token loop can be named.
func (v *version) elsewhere() string {
	if slices.ContainsFunc(v.kinds, guest.Converses) {
		return "works on conversations: only chat requests can name it"
	}
	return "compiles grammars: a request names it beside its grammar"
}

func checkParts(parts []*part) error {
	if len(parts) > MaxPerRequest {
		return &BindError{"", fmt.Sprintf("%d for one request, the limit is %d", len(parts), MaxPerRequest), ErrParams}
	}
	sampler := ""
	for _, p := range parts {
		if !p.v.serves(abi.KindSampler) {
			continue
		}
		if sampler != "" {
			return &BindError{p.name, fmt.Sprintf("and %s both pick the token, one request has one sampler", sampler), ErrParams}
		}
		sampler = p.name
	}
	return nil
}

// admit asks the breaker and the guest.
func (b *Bound) admit(ctx context.Context, p *part) error {
	if refused := p.admit(); refused != "" {
		if p.v.set.apply == ApplyAlways && p.v.set.onError == OnErrorSkip {
			b.skip(ctx, p, refused, errSwitchedOff, noStep)
			p.out = true
			return nil
		}
		return &BindError{p.name, refused, ErrOff}
	}
	return p.validate(func() error { return b.answer(ctx, p, p.v.guest.Validate(ctx.Done(), p.params)) })
}

// validate looks at a request's parameters; ask asks the guest about them.
func (p *part) validate(ask func() error) error {
	if len(p.params) == 0 || string(p.params) == "{}" { // the canary asked already
		if p.v.refuses != "" {
			return &BindError{p.name, p.v.refuses, ErrParams}
		}
		return nil
	}
	if !isObject(p.params) {
		return &BindError{p.name, "params is not a JSON object", ErrParams}
	}
	return ask()
}

// answer makes a request's error of a plugin's, or has the request go on without the plugin.
func (b *Bound) answer(ctx context.Context, p *part, err error) error {
	var no *guest.Refusal
	var fault *sandbox.Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no):
		if p.named || p.v.set.onError == OnErrorFail {
			return &BindError{p.name, no.Text, p.refusal()}
		}
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrMemory):
		return p.busy(err)
	case errors.Is(err, sandbox.ErrCancelled):
		return cause(ctx, err)
	case errors.As(err, &fault):
		p.failed(b.set, err)
		fallthrough
	default:
		if p.v.set.onError == OnErrorFail {
			return &BindError{p.name, p.says(err), ErrFault}
		}
	}
	b.skip(ctx, p, p.says(err), err, noStep)
	p.out = true
	return nil
}

// refusal is ErrParams, and names a parameter that the schema of the plugin's description does not have.
func (p *part) refusal() error {
	var schema struct{ Properties map[string]json.RawMessage }
	var given map[string]json.RawMessage
	if json.Unmarshal(p.v.guest.Description().Params, &schema) != nil || json.Unmarshal(p.params, &given) != nil || len(schema.Properties) == 0 {
		return ErrParams
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := schema.Properties[name]; !ok {
			return &Misnamed{name, slices.Sorted(maps.Keys(schema.Properties)), ErrParams}
		}
	}
	return ErrParams
}

// busy makes a request's error of the want of an instance, or of memory for it.
func (p *part) busy(err error) error {
	var short *sandbox.Shortage
	switch {
	case errors.As(err, &short) && short.Never:
		return &BindError{p.name, p.says(err), ErrParams}
	case errors.Is(err, sandbox.ErrMemory):
		return &BindError{p.name, p.says(err), ErrBusy}
	}
	return &BindError{p.name, "all its instances are in use", ErrBusy}
}

// says gives an error's text without the name of the plugin before it.
func (p *part) says(err error) string { return strings.TrimPrefix(err.Error(), p.name+": ") }

// cause is why a guest's call was cancelled.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// admit asks the breakers, and says why the request is not let through.
func (p *part) admit() (refused string) {
	p.trial, refused = p.v.breakers.admit(time.Now(), p.client)
	return refused
}

// abandon gives back a trial that showed nothing.
func (p *part) abandon() { p.v.breakers.abandon(p.client, p.trial) }

// failed counts a faulty sequence.
func (p *part) failed(s *Set, err error) {
	if off := p.v.breakers.fault(time.Now(), p.client, p.says(err), p.trial); off != "" {
		s.log.Warn("plugin switched off", "plugin", p.name, "sha256", p.v.sum(), "client", p.client, "why", off)
	}
}

// worked counts a sequence that the plugin served without a fault.
func (p *part) worked(s *Set) {
	if p.v.breakers.good(p.client, p.trial) {
		s.log.Info("plugin switched on again", "plugin", p.name, "sha256", p.v.sum())
	}
}

// errSwitchedOff is the cause of a plugin that is passed over because its breaker is open.
var errSwitchedOff = errors.New("switched off")

// noStep stands for the step of a fault before the first one.
const noStep = -1

// skip notes that a sequence, or the whole request, goes on without a plugin. The log has each cause once for a version:
// a plugin that fails at every request would fill it.
func (b *Bound) skip(ctx context.Context, p *part, reason string, err error, step int) {
	p.v.ledger.skips.Add(1)
	if p.v.firstSkip(err) {
		attrs := []any{"plugin", p.name, "sha256", p.v.sum(), "error", reason}
		if step != noStep {
			attrs = append(attrs, "step", step)
		}
		b.set.log.WarnContext(ctx, "plugin failed and was skipped; further failures of this cause are not logged", attrs...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.skipped, func(s Skip) bool { return s.Plugin == p.name }) {
		b.skipped = append(b.skipped, Skip{Plugin: p.name, Reason: reason})
	}
}

// Skipped gives the plugins that failed and were passed over so far, each once with what it failed at first. It may be
// called at any time, after Close too.
func (b *Bound) Skipped() []Skip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.skipped)
}

// Close ends the request: sequences that were not handed out by Sequence end now, the others with their Release. The
// versions are let go with the last of them. Closing twice is fine.
func (b *Bound) Close() {
	b.once.Do(func() {
		for i := range b.seqs {
			if b.seqs[i].state.CompareAndSwap(begun, released) {
				b.end(&b.seqs[i])
			}
		}
		b.drop()
	})
}

// drop counts down what is open, and lets the versions go with the last.
func (b *Bound) drop() {
	if b.open.Add(-1) > 0 {
		return
	}
	for _, p := range b.parts {
		p.abandon()
		p.v.drop()
	}
}
