package tgi

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// refusal is an error whose text and type TGI has on a few routes alone.
type refusal struct {
	status     int
	text, kind string
}

// incomplete is what Vertex's and KServe's routes say of failures; see failed.
var incomplete = refusal{http.StatusInternalServerError, "Incomplete generation", "Incomplete generation"}

// write replies with it; cause is for the log.
func (f refusal) write(w http.ResponseWriter, r *http.Request, cause error) {
	server.Note(r.Context(), cause)
	shown := server.Failure{Status: f.status, Text: f.text, Type: f.kind}
	server.WriteStatus(w, f.status, shown.Append(nil))
}

// failed replies to a call whose texts failed with err, or returns the error of its reply. TGI calls each failure
// incomplete. What the request's key may not have is known to this server alone, and said as on all other routes.
func failed(w http.ResponseWriter, r *http.Request, err error) error {
	switch {
	case r.Context().Err() != nil:
		return context.Cause(r.Context())
	case server.Explain(err).Kind.OfKey():
		return err
	}
	incomplete.write(w, r, err)
	return nil
}

// callsPerSlot is how often the texts of one call may fill all places.
const callsPerSlot = 8

// checkCount bounds the texts of one call: they are generated a few at a time, but
// the reply waits for all, and each of them is held until then.
func checkCount(m *dispatch.Model, field string, n int) error {
	places := m.Limits.MaxConcurrentRequests
	if most := callsPerSlot * places; places > 0 && n > most {
		return &generate.Invalid{Field: field,
			Msg: fmt.Sprintf("`%s` must have at most %d entries, %d times max_concurrent_requests. Given: %d", field,
				most, callsPerSlot, n)}
	}
	return nil
}

// texts generates the text of every body, a few at a time, in their order: no more than one request may. The
// first failure ends the others.
func texts(ctx context.Context, m *dispatch.Model, bodies []*body) ([]string, error) {
	if err := mayHave(ctx, bodies); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]string, len(bodies))
	few := max(1, m.Limits.MaxClientBatchSize)
	for _, b := range bodies {
		few = min(few, m.Service.Together(&b.draft))
	}
	slots := make(chan struct{}, few)
	var group sync.WaitGroup
	for i, b := range bodies {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			text, err := text(ctx, m, b)
			if err != nil {
				cancel(err)
			}
			out[i] = text
		})
	}
	group.Wait()
	return out, context.Cause(ctx)
}

// mayHave refuses a call whose texts have more tokens than its key may have now, before the first of them costs any.
// Prompts and texts without a length are not known yet: they count when they begin.
func mayHave(ctx context.Context, bodies []*body) error {
	n := 0
	for _, b := range bodies {
		if m := b.draft.MaxNewTokens; m != nil {
			n += int(*m)
		}
	}
	if n == 0 {
		return nil
	}
	settle, err := generate.Reserve(ctx, n)
	if err == nil {
		settle(0, 0, 0, 0)
	}
	return err
}

// text generates the text of one body.
func text(ctx context.Context, m *dispatch.Model, b *body) (string, error) {
	run, err := m.Service.Start(ctx, b.draft)
	if err != nil {
		return "", err
	}
	defer run.Close()
	result, err := run.Collect(ctx)
	if err != nil {
		return "", err
	}
	return b.prompt() + result.Best.Finish.Text, nil
}
