package generate

import (
	"context"
	"slices"
	"sync"
)

// workers bounds how many texts are encoded at once. Clients that wait take turns, so that one's long texts hold
// another's up by one of them at most.
type workers struct {
	mu      sync.Mutex
	free    int
	waiting []*clientQueue // clients with requests that wait, the next first
}

// clientQueue is the requests of a client that wait, the oldest first. Each channel is closed when its turn comes.
type clientQueue struct {
	client string
	turns  []chan struct{}
}

// enter waits for the client's turn. It gives up when ctx ends. Whoever entered leaves.
func (w *workers) enter(ctx context.Context, client string) error {
	w.mu.Lock()
	if w.free > 0 {
		w.free--
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
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !w.remove(client, turn) {
		w.leave() // the turn came meanwhile
	}
	return context.Cause(ctx)
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

// leave hands the place to the oldest request of the next client, which goes behind the others.
func (w *workers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.free++
		return
	}
	q := w.waiting[0]
	w.waiting = slices.Delete(w.waiting, 0, 1)
	close(q.turns[0])
	if q.turns = slices.Delete(q.turns, 0, 1); len(q.turns) > 0 {
		w.waiting = append(w.waiting, q)
	}
}
