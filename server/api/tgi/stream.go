package tgi

import (
	"context"
	"errors"
	"io"
	"net/http"

	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// stream replies with an event per token. The status is 200 whatever happens
// to the request: an error is the last event.
func (a *API) stream(w http.ResponseWriter, r *http.Request, m *dispatch.Model, b *body) error {
	ctx := r.Context()
	b.details = b.details || b.draft.Explain != nil
	b.draft.Stream, b.draft.Receipt = true, b.details
	run, refused := m.Service.Start(ctx, b.draft)
	if refused == nil {
		defer run.Close()
		generate.SetUnknown(w.Header(), run.Unknown())
		generate.SetDropped(w.Header(), run.Dropped())
		generate.SetSkipped(w.Header(), run.Skipped())
	}
	a.setCompute(w, b)
	events, err := server.StartEvents(b.dialect.Writer(w))
	if err != nil {
		return nil // the client left before the first byte
	}
	if refused == nil {
		refused = pump(ctx, events, run, b)
		generate.TrailSkipped(w.Header(), run.Skipped())
	}
	if refused != nil {
		server.Note(ctx, refused)
		_ = events.Data(server.AppendError(nil, refused)) // the last words, heard or not
	}
	return nil
}

// pump sends the run's tokens until the last one, and returns why it could not.
func pump(ctx context.Context, events *server.Events, run *generate.Run, b *body) error {
	d := delta{dialect: b.dialect, sampled: run.Request.Params.Sample, details: b.details, prompt: b.prompt(),
		predicted: b.draft.Prediction != nil}
	var line []byte
	var e generate.Event
	d.event = &e
	for {
		var err error
		e, err = server.Await(ctx, events, run.Next)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, generate.ErrIncomplete):
			return server.ErrIncompleteStream
		case err != nil:
			return err
		}
		d.index++
		if e.Finish != nil {
			d.skipped, d.dropped, d.receipt = run.Skipped(), run.Dropped(), run.Receipt()
		}
		line = d.append(line[:0])
		if err := events.Data(line); err != nil {
			return err
		}
	}
}
