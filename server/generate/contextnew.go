package generate

import (
	"slices"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// deafForks is how often a program may try to fork or render after it was told that it may no more.
const deafForks = 16

// mayAdd counts a new context, and refuses it before it costs anything.
func (h *Contexts) mayAdd() error {
	switch h.forks++; {
	case h.forks > abi.MaxForks+deafForks:
		return failed("plugin %s: it goes on to fork and render, which it may do %d times", llm.Shorten(h.name),
			abi.MaxForks)
	case h.forks > abi.MaxForks:
		return refused(abi.ProgramPurse, "a program may fork and render %d times", abi.MaxForks)
	case !slices.Contains(h.list[:], nil):
		return refused(abi.ProgramRoom, "a program may have %d contexts at a time", len(h.list))
	}
	return nil
}

// add gives a new context, which mayAdd allowed, a number.
func (h *Contexts) add(x *handle) int {
	c := slices.Index(h.list[:], nil)
	h.list[c] = x
	return c
}

// Fork implements the import ctx_fork, and so on.
func (h *Contexts) Fork(c int) (int, error) {
	x, err := h.resting(c)
	if err != nil {
		return 0, err
	}
	h.split = true
	if err := h.mayAdd(); err != nil {
		return 0, err
	}
	if err := h.share(x); err != nil {
		return 0, err
	}
	f := newHandle(x.c.Fork())
	f.computed = x.computed
	f.known, f.infos, f.span, f.end = x.known, x.infos[:len(x.infos):len(x.infos)], x.span, x.end
	return h.add(f), nil
}

// shared is how many tokens each fork may compute for itself: those of a block.
const shared = 16

// share computes a context that is about to be forked, so that forks that run at the same time do not all do so.
func (h *Contexts) share(x *handle) error {
	n := len(x.c.Tokens())
	if n-x.computed <= shared || h.mayAsk(n, 0) != nil {
		return nil
	}
	if h.ask(x, nil) != nil { // such as of one that is too long to be a prompt: it may be forked all the same
		return nil
	}
	return h.await(x)
}

// Render implements render.
func (h *Contexts) Render(request []byte) (c int, fuel int64, err error) {
	if err := h.mayAdd(); err != nil {
		return 0, 0, err
	}
	r, fuel, err := h.bound.Render(h.ctx, request)
	if err != nil {
		return 0, fuel, h.codeError(err, abi.ProgramArgument)
	}
	e, err := h.service.encode(h.ctx, r.Text, llm.Encoding{Data: append([]Span{}, r.Data...),
		Most: h.service.limits.MaxTotal})
	switch {
	case err != nil:
		return 0, fuel, err
	case e.Tokens == nil || e.Count > h.service.limits.MaxTotal:
		return 0, fuel, refused(abi.ProgramRoom, "the conversation has %d tokens or more, the model has room for %d", e.Count,
			h.service.limits.MaxTotal)
	}
	return h.add(newHandle(h.session.New(e.Tokens, nil))), fuel, nil
}
