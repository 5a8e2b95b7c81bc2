package generate

import (
	"context"
	"slices"
	"sync"
	"time"

	"tgi/runtime/llm"
)

// workers bounds how much of one kind of work is done at once: texts are encoded, images fetched and encoded. Clients
// that wait take turns, so that one's long work holds another's up by one piece of it at most, or, where each client
// has a bound below the whole, not at all.
type workers struct {
	mu      sync.Mutex
	free    int
	each    int            // places that one client may have; 0 is all
	held    map[string]int // places of each client, where each is set
	waiting []*clientQueue // clients with requests that wait, the next first
}

// clientQueue is the requests of a client that wait, the oldest first. Each channel is closed when its turn comes.
type clientQueue struct {
	client string
	turns  []chan struct{}
}

// enter waits for the client's turn. It gives up when ctx ends. Whoever entered leaves.
func (w *workers) enter(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.mu.Lock()
	if w.free > 0 && w.allows(client) {
		w.take(client)
		w.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	i := slices.IndexFunc(w.waiting, func(q *clientQueue) bool { return q.client == client })
	if i < 0 {
		i = len(w.waiting)
		w.waiting = append(w.waiting, &clientQueue{client: client})
	}
	w.waiting[i].turns = append(w.waiting[i].turns, turn)
	w.mu.Unlock()
	defer llm.Waited(ctx, time.Now())
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !w.remove(client, turn) {
		w.leave(client) // the turn came meanwhile
	}
	return context.Cause(ctx)
}

// alone reports whether nobody waits.
func (w *workers) alone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) == 0
}

// pause lets others in who wait, and waits for another turn. When it fails, the place is given back.
func (w *workers) pause(ctx context.Context, client string) error {
	if w.alone() && ctx.Err() == nil {
		return nil
	}
	w.leave(client)
	return w.enter(ctx, client)
}

// remove takes a request out of its queue and reports whether it was there.
func (w *workers) remove(client string, turn chan struct{}) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.waiting, func(q *clientQueue) bool { return q.client == client })
	if i < 0 {
		return false
	}
	q := w.waiting[i]
	j := slices.Index(q.turns, turn)
	if j < 0 {
		return false
	}
	if q.turns = slices.Delete(q.turns, j, j+1); len(q.turns) == 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	return true
}

// allows reports whether a client may have another place. The caller holds the lock.
func (w *workers) allows(client string) bool { return w.each == 0 || w.held[client] < w.each }

// take gives a client a free place. The caller holds the lock.
func (w *workers) take(client string) {
	w.free--
	if w.each == 0 {
		return
	}
	if w.held == nil {
		w.held = map[string]int{}
	}
	w.held[client]++
}

// leave hands the client's place to the oldest request of the next client that may have one, which goes behind the
// others.
func (w *workers) leave(client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free++
	if w.held != nil {
		if w.held[client]--; w.held[client] == 0 {
			delete(w.held, client)
		}
	}
	for i, q := range w.waiting {
		if !w.allows(q.client) {
			continue
		}
		w.take(q.client)
		w.waiting = slices.Delete(w.waiting, i, i+1)
		close(q.turns[0])
		if q.turns = slices.Delete(q.turns, 0, 1); len(q.turns) > 0 {
			w.waiting = append(w.waiting, q)
		}
		return
	}
}
