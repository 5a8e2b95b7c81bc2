package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/template"
	"tgi/sdk/abi"
)

// ChatPlugins are the plugins that conversations get where a request names no others. "" means none.
type ChatPlugins struct {
	Template, Tools string
	// TemplateSum is the checksum, in hex, of the text that Template renders; "" where it renders no text but its own.
	TemplateSum string
}

// Rendered is the text of a conversation, with the parts of it that are data.
type Rendered = template.Rendered

// BoundChat is the plugins of one chat request that work on the conversation, at the versions that were current when it
// was bound. Its methods may be called from any goroutine at the same time. Close it; its parsers outlive that.
type BoundChat struct {
	set             *Set
	template, tools *part // one for both where one plugin does both; nil for none
	open            atomic.Int64
	once            sync.Once
}

// BindChat picks the plugins of a conversation. Those of d serve unless a call names another plugin of the same kind;
// that plugin gets the call's parameters with the conversation. rest are the calls for [Set.Bind]: those whose plugin
// serves a kind of the token loop, even if it also serves one of these kinds; Bind may find a newer version of such a
// plugin. Each plugin is asked whether it accepts its parameters. Errors are those of Bind.
func (s *Set) BindChat(ctx context.Context, calls []Call, d ChatPlugins) (b *BoundChat, rest []Call, err error) {
	if err := s.mayName(ctx, calls...); err != nil {
		return nil, nil, err
	}
	b = &BoundChat{set: s}
	b.open.Store(1)
	if rest, err = s.selectChatParts(ctx, b, calls, d); err != nil {
		return nil, nil, err
	}
	for _, p := range b.parts() {
		if err := p.admitChat(ctx, s); err != nil {
			b.Close()
			return nil, nil, err
		}
	}
	return b, rest, nil
}

// selectChatParts selects the plugins and takes a reference to each version. On an error it takes none.
func (s *Set) selectChatParts(ctx context.Context, b *BoundChat, calls []Call, d ChatPlugins) (rest []Call, err error) {
	client, request := s.client(ctx), s.request(ctx)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	for i, c := range calls {
		if slices.ContainsFunc(calls[:i], func(before Call) bool { return before.Name == c.Name }) {
			return nil, &BindError{c.Name, "is named twice", ErrParams}
		}
		v, err := s.serving(c.Name, client, request)
		if err != nil {
			return nil, err
		}
		if len(v.steps) > 0 {
			rest = append(rest, c)
		}
		if len(v.steps) == 0 && !slices.ContainsFunc(v.kinds, guest.Converses) {
			return nil, &BindError{c.Name, v.usageHint(), ErrParams}
		}
		p := &part{version: v, name: c.Name, params: c.Params, named: true, client: client, request: request,
			verdict: &verdict{}}
		if err := b.assign(p); err != nil {
			return nil, err
		}
	}
	for _, want := range []struct {
		name, kind string
		slot       **part
	}{{d.Template, abi.KindTemplate, &b.template}, {d.Tools, abi.KindTools, &b.tools}} {
		if want.name == "" || *want.slot != nil {
			continue
		}
		v, err := s.serving(want.name, client, request)
		if err != nil {
			return nil, err
		}
		if !v.serves(want.kind) {
			return nil, &BindError{want.name, fmt.Sprintf("serves %q, kind %q is wanted", v.kinds, want.kind),
				ErrParams}
		}
		*want.slot = &part{version: v, name: want.name, client: client, request: request, verdict: &verdict{}}
		if b.template != nil && b.template.name == want.name { // it does both
			*want.slot = b.template
		}
	}
	for _, p := range b.parts() {
		p.version.bind()
		p.tally = s.names[p.name].follow(request)
	}
	return rest, nil
}

// serving returns the version that serves a request under a name. The lock is held.
func (s *Set) serving(name, client, request string) (*version, error) {
	switch e := s.names[name]; {
	case e == nil:
		return nil, s.unknownError(name)
	case e.current == nil:
		return nil, &BindError{name, s.unavailableReason(e), ErrOff}
	default:
		return e.pick(client, request), nil
	}
}

// assign makes a plugin that the request names the template, the tool parser or both, by its kinds.
func (b *BoundChat) assign(p *part) error {
	for _, want := range []struct {
		kind string
		slot **part
	}{{abi.KindTemplate, &b.template}, {abi.KindTools, &b.tools}} {
		if !p.version.serves(want.kind) {
			continue
		}
		if other := *want.slot; other != nil {
			both := fmt.Sprintf("are of kind %q, and a request has one", want.kind)
			return &BindError{p.name, beside(other.name, both), ErrParams}
		}
		*want.slot = p
	}
	return nil
}

// parts returns the plugins, each once.
func (b *BoundChat) parts() (out []*part) {
	for _, p := range []*part{b.template, b.tools} {
		if p != nil && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// admitChat asks the breaker and the guest.
func (p *part) admitChat(ctx context.Context, s *Set) error {
	if refused := p.admit(); refused != "" {
		return &BindError{p.name, refused, ErrOff}
	}
	return p.validate(ctx, s, func() error {
		err := p.askGuest(ctx, s)
		if costly := p.tooCostly(err, "check its parameters", 0); costly != nil {
			return costly
		}
		return p.chatError(ctx, s, err)
	})
}

// openShared opens a session whose calls take turns with others (see [Turns]). The caller
// calls done after the last call. Errors are those of Bind.
func (p *part) openShared(ctx context.Context, set *Set) (s *guest.Session, done func(), err error) {
	t, err := set.turns.register(ctx, p.client)
	if err != nil {
		return nil, nil, err
	}
	s, err = p.version.guest.OpenShared(p.seed(0), ctx.Done(), guestTurn{t, ctx})
	if err != nil {
		t.end()
		return nil, nil, p.chatError(ctx, set, err)
	}
	return s, func() {
		s.Close()
		t.end()
	}, nil
}

// chatError turns a guest's error into the request's, and counts a fault.
func (p *part) chatError(ctx context.Context, s *Set, err error) error {
	var no *guest.Refusal
	var fault *sandbox.Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no):
		return p.bindError(no.Text, err, p.paramsError())
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrMemory):
		p.recordMemoryFault(s, err)
		return p.busyError(err)
	case errors.Is(err, sandbox.ErrCancelled):
		return cancelCause(ctx, err)
	case errors.As(err, &fault):
		p.recordFault(s, err)
	}
	return p.bindError(p.errorText(err), err, ErrFault)
}

// Render renders a conversation. request is the JSON object of abi.Template without "params"; it is not kept. If
// the template can't render it, the error is a [*RenderRefusal]; other errors are ErrNoTemplate and those of Bind. When
// ctx ends, the guest's call ends too.
func (b *BoundChat) Render(ctx context.Context, request []byte) (Rendered, error) {
	r, _, err := b.RenderMetered(ctx, request)
	return r, err
}

// RenderMetered is Render, and tells the template's fuel, also that of a call that failed.
func (b *BoundChat) RenderMetered(ctx context.Context, request []byte) (r Rendered, fuel int64, err error) {
	p := b.template
	if p == nil {
		return r, 0, ErrNoTemplate
	}
	s, done, err := p.openShared(ctx, b.set)
	if err != nil {
		return r, 0, err
	}
	defer done()
	r, err = template.Render(s, request, p.params)
	fuel = s.Used()
	var no *guest.Refusal
	if refused := errors.As(err, &no); refused {
		p.recordSuccess(b.set)
		p.rendered(request, Rendered{}, true)
		return Rendered{}, fuel, &RenderRefusal{p.name, no.Text}
	}
	if costly := p.tooCostlyRequest(err, "render", request); costly != nil {
		return Rendered{}, fuel, costly
	}
	if err != nil {
		return Rendered{}, fuel, p.chatError(ctx, b.set, err)
	}
	p.recordSuccess(b.set)
	p.rendered(request, r, false)
	return r, fuel, nil
}

// Close releases the plugins once the last parser is closed too. Closing twice is fine.
func (b *BoundChat) Close() { b.once.Do(b.unref) }

// unref drops a reference; the last one releases the versions.
func (b *BoundChat) unref() {
	if b.open.Add(-1) > 0 {
		return
	}
	for _, p := range b.parts() {
		p.cancelTrial()
		p.tally.release()
		p.version.unref()
	}
}
