package generate

import "context"

// Meter counts the tokens of requests and bounds them.
type Meter interface {
	// Reserve takes room for n tokens before a request runs. settle, which is called once when it is over, replaces
	// them by those that it used: of prompts, those of them that a cache had, and generated ones.
	Reserve(ctx context.Context, n int) (settle func(prompt, cached, generated int), err error)
}

// meterKey is the key of a context's Meter.
type meterKey struct{}

// WithMeter returns a context whose requests m counts.
func WithMeter(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Reserve is the Reserve of ctx's Meter, if it has one.
func Reserve(ctx context.Context, n int) (settle func(prompt, cached, generated int), err error) {
	if m, ok := ctx.Value(meterKey{}).(Meter); ok {
		return m.Reserve(ctx, n)
	}
	return func(int, int, int) {}, nil
}

// assumedTokens are reserved for a text whose length the request does not bound: few texts are longer, and the rest of
// a long context would use up what a key may have.
const assumedTokens = 1024

// reserve takes room for the tokens of a request.
func (r *Run) reserve(ctx context.Context, d *Draft) (err error) {
	most := r.Request.Params.MaxNewTokens
	if d.MaxNewTokens == nil || d.Clip {
		most = min(most, assumedTokens)
	}
	r.settle, err = Reserve(ctx, len(r.Request.Prompt)+r.Request.Sequences*most)
	return err
}

// settleTokens tells how many tokens were used, once.
func (r *Run) settleTokens() {
	if r.settle == nil {
		return
	}
	prompt, cached := 0, 0
	if r.stream != nil {
		prompt = len(r.Request.Prompt)
	}
	if len(r.finishes) > 0 {
		cached = r.finishes[0].Cached
	}
	r.settle(prompt, cached, r.generated)
	r.settle = nil
}
