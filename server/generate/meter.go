package generate

import "context"

// Meter counts the tokens of requests and bounds them.
type Meter interface {
	// Reserve takes room for n tokens before a request runs. settle, which is called once when it is over, replaces
	// them by those that it used.
	Reserve(ctx context.Context, n int) (settle Settle, err error)
}

// Settle gets what a request used: the tokens of prompts, those of them that a cache had, generated ones, and those
// that were computed beside these for texts that no client saw: contexts of programs, second prompts, other beams of a
// search, and what guards took back. What speculation guessed wrong is the server's idea, and in none of them.
type Settle = func(prompt, cached, generated, unseen int)

// meterKey is the key of a context's Meter.
type meterKey struct{}

// WithMeter returns a context whose requests m counts.
func WithMeter(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Reserve is the Reserve of ctx's Meter, if it has one.
func Reserve(ctx context.Context, n int) (settle Settle, err error) {
	if m, ok := ctx.Value(meterKey{}).(Meter); ok {
		return m.Reserve(ctx, n)
	}
	return func(int, int, int, int) {}, nil
}

// assumedTokens are reserved for a text whose length the request does not bound: few texts are longer, and the rest of
// a long context would use up what a key may have.
const assumedTokens = 1024

// reserve takes room for the tokens of a request: all that it may compute, as far as that is known before. What a
// program computes and what guards take back is not: it counts when the request is over.
func (r *Run) reserve(ctx context.Context, d *Draft) (err error) {
	q := &r.Request
	most := q.Params.MaxNewTokens
	if d.MaxNewTokens == nil || d.Clip {
		most = min(most, assumedTokens)
	}
	r.settle, err = Reserve(ctx, len(q.Prompt)+q.secondPrompt()+q.texts()*most)
	return err
}

// secondPrompt counts the tokens of second prompts.
func (q *Request) secondPrompt() (n int) {
	for _, t := range q.twins {
		n += len(t)
	}
	return n
}

// settleTokens tells how many tokens were used, once.
func (r *Run) settleTokens() {
	if r.settle == nil {
		return
	}
	prompt, cached, unseen := 0, 0, 0
	if r.stream != nil {
		prompt = len(r.Request.Prompt)
		// less than none where a guard ended a text with an event of its own
		unseen = r.Request.secondPrompt() + int(max(r.unseen.Load(), 0))
	}
	if len(r.finishes) > 0 {
		cached = r.finishes[0].Cached
	}
	if r.programs != nil {
		unseen = r.programs.unseen(prompt, r.generated)
	}
	r.settle(prompt, cached, r.generated, unseen)
	r.settle = nil
}
