package generateapi

import (
	"context"
	"errors"
	"net/http"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dispatch"
)

// one is POST /api/generate-one.
func (a *API) one(w http.ResponseWriter, r *http.Request) error {
	body, err := server.ReadAnyBody(r) // the original looks at no media type
	if err != nil {
		return refuse(w, r, err)
	}
	q, err := server.Parse(r.Context(), body, readOne)
	if err != nil {
		return refuse(w, r, err)
	}
	m, release, err := dispatch.Use(a.options.Models, r, q.model)
	if err != nil {
		return refuse(w, r, err)
	}
	defer release()
	j, err := a.begin(r.Context(), m, server.Token(r), q)
	if err != nil {
		return refuse(w, r, err)
	}
	defer j.close()
	if q.stream && j.settings.beams == 1 {
		return j.stream(w, r)
	}
	return j.whole(w, r)
}

// begun writes the header of a text with trailers.
func (j *job) begun(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", plain)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	trailers := finishReason + ", " + generatedTokens
	if j.explain != nil {
		trailers += ", " + receiptTrailer
	}
	h.Set("Trailer", trailers)
	j.setBeginning(h)
	w.WriteHeader(http.StatusOK)
}

// whole replies with the text in one piece.
func (j *job) whole(w http.ResponseWriter, r *http.Request) error {
	t := j.texts[0]
	fresh, err := t.rest(r.Context())
	if err == nil {
		err = j.settle(r.Context())
	}
	if err != nil {
		return refuse(w, r, err)
	}
	j.begun(w)
	_, _ = w.Write([]byte(t.before + fresh))
	j.setOutcome(w.Header())
	j.setReceipt(w.Header())
	return nil
}

// stream replies with the text as it grows, without any framing. What was known
// before is the first piece.
func (j *job) stream(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	control := http.NewResponseController(w)
	t := j.texts[0]
	j.begun(w)
	piece, last := t.before, false
	for {
		if _, err := w.Write([]byte(piece)); err != nil {
			return nil // the client left
		}
		if last {
			break
		}
		if err := control.Flush(); err != nil {
			return nil
		}
		var err error
		for piece = ""; piece == "" && !last; { // no empty writes
			if piece, last, err = t.next(ctx); err != nil {
				j.abort(w, r, err)
				return nil
			}
		}
	}
	if err := j.settle(ctx); err != nil {
		j.abort(w, r, err)
		return nil
	}
	j.setOutcome(w.Header())
	j.setReceipt(w.Header())
	return nil
}

// abort ends a reply that has begun as the original does: the error's text is the last
// piece, then the connection is aborted, so that no client takes the text for complete.
// It returns only if the client has left.
func (j *job) abort(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	if errors.Is(err, context.Canceled) && !errors.Is(err, llm.ErrDraining) {
		return
	}
	j.api.options.Log.Error("generation failed after the reply had begun", "path", r.URL.Path, "error", err)
	_, _ = w.Write([]byte(explain(err).Text))
	_ = http.NewResponseController(w).Flush()
	j.close() // the panic's way does it too, but who reads the reply may ask again at once
	panic(http.ErrAbortHandler)
}
