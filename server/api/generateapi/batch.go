package generateapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"tgi/server"
	"tgi/server/dispatch"
)

// batch is POST /api/generate-batch: 200 when the model ended all texts, 206 when
// it did not.
func (a *API) batch(w http.ResponseWriter, r *http.Request) error {
	body, err := server.ReadAnyBody(r) // the original looks at no media type
	if err != nil {
		return refuse(w, r, err)
	}
	q, err := a.parseBatch(r.Context(), body)
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
	list, err := j.collect(r, !q.onlyNew)
	if err != nil {
		return refuse(w, r, err)
	}
	status := http.StatusOK
	if slices.ContainsFunc(j.texts, func(t *text) bool { return !t.done }) {
		status = http.StatusPartialContent
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(list)))
	j.setBeginning(h)
	j.setOutcome(h)
	w.WriteHeader(status)
	server.WriteLast(w, list)
	return nil
}

// parseBatch reads a body of generate-batch, or a message of a socket.
func (a *API) parseBatch(ctx context.Context, body []byte) (*request, error) {
	return server.Parse(ctx, body, func(body []byte) (*request, error) {
		return readBatch(body, a.options.Config.MaxPrompts)
	})
}

// collect reads all texts to their end and returns the reply's array.
func (j *job) collect(r *http.Request, prompts bool) ([]byte, error) {
	var list pythonList
	for i, t := range j.texts {
		fresh := ""
		if t.run != nil {
			var err error
			if fresh, err = t.rest(r.Context()); err != nil {
				return nil, err
			}
		}
		list.object()
		list.text("request_id", j.ids[i])
		if prompts {
			list.text("prompt", t.before)
		}
		list.text("response", fresh)
		t.tell(&list)
	}
	if err := j.settle(r.Context()); err != nil {
		return nil, err
	}
	return list.end(), nil
}
