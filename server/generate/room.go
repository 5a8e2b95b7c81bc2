package generate

import "context"

// roomKey is the key of what a context says of room for texts.
type roomKey struct{}

// WithRoom returns a context under which requests ask take for room before they hold a text beside their body: the
// prompt that a template made. It takes n bytes, which the caller gives back when the request is over, or fails.
func WithRoom(ctx context.Context, take func(n int64) error) context.Context {
	return context.WithValue(ctx, roomKey{}, take)
}

// spanBytes is what a Span takes.
const spanBytes = 16

// takeRoom takes room for a prompt. The templates of a few requests run at once, so that the prompts that have none yet
// are few.
func takeRoom(ctx context.Context, r *Rendered) error {
	return room(ctx)(int64(len(r.Text)) + spanBytes*int64(len(r.Data)))
}

// TakeRoom takes room for n bytes that the request of ctx holds beside its body. Errors are those of WithRoom's take.
func TakeRoom(ctx context.Context, n int64) error { return room(ctx)(n) }

// room returns what takes room for the request of ctx.
func room(ctx context.Context) func(n int64) error {
	if take, ok := ctx.Value(roomKey{}).(func(int64) error); ok {
		return take
	}
	return func(int64) error { return nil }
}
