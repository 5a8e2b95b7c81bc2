package responses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"tgi/server"
	"tgi/server/api/responses/store"
	"tgi/server/generate"
)

// How long the replica that runs a response is taken to live unless it says so again, and how often it does.
const (
	leaseLasts  = time.Minute
	leaseRenews = leaseLasts / 3
)

// errCancelled ends a response that its client cancels.
var errCancelled = errors.New("the client cancelled the response")

// event is one of a stream.
type event struct {
	name string
	json []byte
}

type jobKey struct {
	owner store.Owner
	id    string
}

// job is a turn that goes on behind its handler. Its events stay here until it is over, for whoever follows.
type job struct {
	key    jobKey
	cancel context.CancelCauseFunc
	// done is closed when the job is over and its response is kept.
	done chan struct{}

	mu       sync.Mutex
	events   []event
	response []byte        // as it stands
	changed  chan struct{} // closed when that or events change
	over     bool
}

// set changes how the job stands; e is what happened, with an empty name for nothing.
func (j *job) set(e event, response []byte, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.name != "" {
		j.events = append(j.events, e)
	}
	if response != nil {
		j.response = response
	}
	j.over = over
	close(j.changed)
	j.changed = make(chan struct{})
}

// stands returns the response as it stands.
func (j *job) stands() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.response
}

// since returns the events from number from on, waiting for one. At the end there are none.
func (j *job) since(ctx context.Context, from int) ([]event, error) {
	for {
		j.mu.Lock()
		list, over, changed := j.events, j.over, j.changed
		j.mu.Unlock()
		if from < len(list) {
			return list[from:], nil
		}
		if over {
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find returns the job that runs a response here; nil for none.
func (a *API) find(k jobKey) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.jobs[k]
}

// createBehind starts a call that goes on behind its handler, and replies with how it stands. It calls release when the
// call is over.
func (a *API) createBehind(w http.ResponseWriter, r *http.Request, c *call, release func()) error {
	ctx, cancel, leave, err := server.Detach(r.Context())
	if err != nil {
		release()
		return err
	}
	free := func() {
		release()
		leave()
	}
	t, err := a.start(ctx, c)
	if err != nil {
		free()
		return err
	}
	j := &job{key: jobKey{a.owner(r), c.id}, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
		response: t.appendResponse(nil, outcome{status: queued})}
	t.emit = func(name string, json []byte) error {
		if err := generate.TakeRoom(ctx, int64(len(json)+len(name))); err != nil {
			return err
		}
		j.set(event{name, json}, nil, false)
		return nil
	}
	if err := a.renew(ctx, j, t); err != nil {
		t.close()
		free()
		return err
	}
	first := j.response
	t.tell("response.created", first)
	t.tell("response.queued", first)
	a.mu.Lock()
	a.jobs[j.key] = j
	a.mu.Unlock()
	go func() {
		defer free()
		defer func() {
			if p := recover(); p != nil { // as in a handler
				a.options.Log.Error("BUG: a response panicked", "panic", p, "id", c.id, "stack", string(debug.Stack()))
			}
		}()
		a.work(ctx, j, t)
	}()
	if c.stream {
		return follow(w, r, j, 0)
	}
	server.WriteJSON(w, first)
	return nil
}

// renew keeps the response as it stands, for this replica's other handlers and for other replicas.
func (a *API) renew(ctx context.Context, j *job, t *turn) error {
	rec := t.record(j.stands())
	gone := explain(fmt.Errorf("%w: the server that ran the response is gone", generate.ErrIncomplete))
	gone.Text = "the server that ran the response is gone"
	rec.Lost = t.appendResponse(nil, outcome{status: statusFailed, failed: &gone})
	rec.Lease = a.now().Add(leaseLasts).Unix()
	return a.put(ctx, j.key.owner, j.key.id, rec)
}

// work runs a turn to its end and keeps it.
func (a *API) work(ctx context.Context, j *job, t *turn) {
	defer func() {
		j.set(event{}, nil, true) // also after a panic: nobody waits for more
		a.mu.Lock()
		delete(a.jobs, j.key)
		a.mu.Unlock()
		close(j.done)
	}()
	defer t.close()
	now := t.appendResponse(nil, outcome{status: inProgress})
	j.set(event{}, now, false)
	t.tell("response.in_progress", now)
	renewed := time.Now()
	err := t.pump(ctx, func(ctx context.Context) (step, error) {
		for {
			wait, stop := context.WithDeadline(ctx, renewed.Add(a.renews))
			e, err := t.next(wait)
			stop()
			if err == nil && time.Since(renewed) < a.renews || ctx.Err() != nil ||
				err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return e, err
			}
			renewed = time.Now()
			failed := a.renew(ctx, j, t)
			switch {
			case errors.Is(failed, store.ErrDeleted): // on another replica
				return step{}, errCancelled
			case failed != nil:
				a.options.Log.Warn("a response could not be kept", "id", j.key.id, "error", failed)
			}
			if err == nil {
				return e, nil
			}
		}
	})
	o := a.ended(t, err)
	t.err = nil
	a.extend(ctx, j.key.owner, t, o)
	last := t.appendResponse(nil, o)
	rec := t.record(last)
	name := "response." + o.status
	if o.status == statusCancelled {
		name = "response.failed" // there is no event of its own
	}
	e := event{name, nil}
	t.emit = func(_ string, json []byte) error {
		e.json = json
		return nil
	}
	t.tell(name, last)
	rec.Events, rec.Longest = pack(append(j.events[:len(j.events):len(j.events)], e))
	err = a.put(ctx, j.key.owner, j.key.id, rec)
	if errors.Is(err, store.ErrTooLarge) {
		rec.Events = nil
		err = a.put(ctx, j.key.owner, j.key.id, rec)
	}
	if errors.Is(err, store.ErrTooLarge) { // the response itself: what is kept says so
		big := explain(refused(http.StatusInsufficientStorage, "insufficient_storage", "",
			"the response is larger than responses.max_response"))
		rec.Response, t.items = nil, nil
		rec.Response = t.appendResponse(nil, outcome{status: statusFailed, failed: &big})
		err = a.put(ctx, j.key.owner, j.key.id, rec)
	}
	if err != nil && !errors.Is(err, store.ErrDeleted) {
		a.options.Log.Warn("a response could not be kept", "id", j.key.id, "error", err)
	}
	j.set(e, last, true)
}

// follow replies with the events of a job from number from on, until it is over or the client leaves.
func follow(w http.ResponseWriter, r *http.Request, j *job, from int) error {
	ctx := r.Context()
	events, err := server.StartEvents(w)
	if err != nil {
		return nil
	}
	for {
		list, err := server.Await(ctx, events, func(ctx context.Context) ([]event, error) { return j.since(ctx, from) })
		if err != nil || len(list) == 0 {
			return nil // the client left, or this was all
		}
		for _, e := range list {
			if events.Named(e.name, e.json) != nil {
				return nil
			}
		}
		from += len(list)
	}
}

// get serves GET /v1/responses/ID: the response, or its events from a number on.
func (a *API) get(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	from := 0
	if text := q.Get("starting_after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return &generate.Invalid{Field: "starting_after", Msg: fmt.Sprintf(
				"`starting_after` must be the number of an event. Given: %.20q", text)}
		}
		from = min(n, math.MaxInt-1) + 1
	}
	streams := q.Get("stream") == "true"
	id := r.PathValue("response_id")
	if j := a.find(jobKey{a.owner(r), id}); j != nil {
		if streams {
			return follow(w, r, j, from)
		}
		server.WriteJSON(w, j.stands())
		return nil
	}
	_, rec, err := a.known(r)
	if err != nil {
		return err
	}
	if rec.Lease != 0 && a.now().Unix() > rec.Lease {
		rec.Response, rec.Lease = rec.Lost, 0
	}
	if !streams {
		server.WriteJSON(w, rec.Response)
		return nil
	}
	return replay(w, r, rec, from)
}

// replay replies with the events that are kept of a response that ended, from number from on. It holds one of them at a
// time: unpacked they may be many times what is kept.
func replay(w http.ResponseWriter, r *http.Request, rec *record, from int) error {
	switch {
	case rec.Lease != 0:
		return refused(http.StatusConflict, "conflict", "stream",
			"The response runs on another server: its events can be followed there alone, or here once it is over.")
	case rec.Events == nil:
		return refused(http.StatusBadRequest, "validation", "stream",
			"No events are kept of this response: they are of those with `background`.")
	}
	ctx := r.Context()
	if err := generate.TakeRoom(ctx, unpackRoom+2*int64(rec.Longest)); err != nil { // a line, and its event
		return err
	}
	packed, err := unpack(rec)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	events, err := server.StartEvents(w)
	if err != nil {
		return nil
	}
	for n := 0; ; n++ {
		e, err := packed.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			server.Note(ctx, fmt.Errorf("%w: %w", store.ErrUnavailable, err))
			return nil
		case n >= from && events.Named(e.name, e.json) != nil:
			return nil // the client left
		}
	}
}

// cancel serves POST /v1/responses/ID/cancel.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("response_id")
	if j := a.find(jobKey{a.owner(r), id}); j != nil {
		j.cancel(errCancelled)
		select {
		case <-j.done:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
		server.WriteJSON(w, j.stands())
		return nil
	}
	_, rec, err := a.known(r)
	switch {
	case err != nil:
		return err
	case rec.Lease > a.now().Unix():
		return refused(http.StatusConflict, "conflict", "", "The response runs on another server: cancel it there.")
	case rec.Events == nil && rec.Lease == 0:
		return refused(http.StatusBadRequest, "validation", "",
			"Only responses with `background` can be cancelled, and this one is over.")
	case rec.Lease != 0:
		rec.Response = rec.Lost
	}
	server.WriteJSON(w, rec.Response)
	return nil
}

// delete serves DELETE /v1/responses/ID. One that runs here is cancelled first; one that runs on another replica ends
// when that finds it deleted.
func (a *API) delete(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("response_id")
	if j := a.find(jobKey{a.owner(r), id}); j != nil {
		j.cancel(errCancelled)
		select {
		case <-j.done:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
	err := a.options.Store.Delete(r.Context(), a.owner(r), id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound(id)
	}
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "response", true})
}
