package llm

import (
	"context"
	"time"
)

type waitsKey struct{}

// WithWaits returns a context whose work tells f how long it waited for its turn. f may be called from any goroutine.
func WithWaits(ctx context.Context, f func(time.Duration)) context.Context {
	return context.WithValue(ctx, waitsKey{}, f)
}

// Waited tells that the work of ctx waited for its turn since then.
func Waited(ctx context.Context, since time.Time) {
	if f, ok := ctx.Value(waitsKey{}).(func(time.Duration)); ok {
		f(time.Since(since))
	}
}
