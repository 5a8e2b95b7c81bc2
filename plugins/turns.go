package plugins

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// turnSlice is how long a call may keep a processor while others wait for one. Nearly every real schema and
	// conversation takes less.
	turnSlice = 50 * time.Millisecond
	// clientTurns is how many calls of one client may be under way, because each has an instance of the plugin.
	clientTurns = 32
)

// turns shares the processors fairly among compilations of grammars, renderings of prompts and constraints of tools, so
// that one client's hardly delay another's. They leave a processor to the steps, where there are several: as many run
// at once as there are others, and one that has run for a slice pauses if another has priority. "Compilation" stands
// for all three here. Priority goes to the client whose running compilations took least time so far, then to the
// compilation that took least, then to the one that waited longest. So a short compilation waits for about one slice of
// each long one that came at the same time, even where all come from one client.
//
// turns.mu guards all fields of its turns and clients, but those that say otherwise.
type turns struct {
	mu       sync.Mutex
	slice    time.Duration
	free     int     // processors
	queue    []*turn // turns that wait for a processor
	clients  map[string]*turnClient
	arrivals uint64 // counts entries of the queue
}

// turnClient is a client with compilations under way.
type turnClient struct {
	name  string
	turns int           // under way, or waiting to be
	ran   time.Duration // they did, together
	slots chan struct{} // holds a token for each that is under way
}

// turn is one compilation.
type turn struct {
	turns   *turns
	client  *turnClient
	ran     time.Duration
	arrival uint64
	granted chan struct{} // closed when the processor is handed over
	since   time.Time     // when it was, or when the slice began; zero without one. Its goroutine alone uses it
}

// turnProcessors is how many calls run at once.
func turnProcessors() int { return max(1, runtime.GOMAXPROCS(0)-1) }

func newTurns(slice time.Duration) *turns {
	return &turns{slice: slice, free: turnProcessors(), clients: map[string]*turnClient{}}
}

// register waits until the client may have one more compilation. ctx is the compilation's. It is to be ended.
func (s *turns) register(ctx context.Context, client string) (*turn, error) {
	s.mu.Lock()
	c := s.clients[client]
	if c == nil {
		c = &turnClient{name: client, slots: make(chan struct{}, clientTurns)}
		s.clients[client] = c
	}
	c.turns++
	s.mu.Unlock()
	t := &turn{turns: s, client: c}
	select {
	case c.slots <- struct{}{}:
		return t, nil
	default:
	}
	select {
	case c.slots <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		t.remove()
		return nil, context.Cause(ctx)
	}
}

// take waits for a processor and reports whether it came before ctx, the compilation's, ended.
func (t *turn) take(ctx context.Context) bool {
	s := t.turns
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		t.since = time.Now()
		return true
	}
	t.enqueue()
	s.mu.Unlock()
	return t.wait(ctx)
}

// enqueue puts the turn at the end of the queue. The lock is held.
func (t *turn) enqueue() {
	s := t.turns
	s.arrivals++
	t.arrival, t.granted = s.arrivals, make(chan struct{})
	s.queue = append(s.queue, t)
}

// wait waits for a processor in the queue, or until ctx ends.
func (t *turn) wait(ctx context.Context) bool {
	select {
	case <-t.granted:
		t.since = time.Now()
		return true
	case <-ctx.Done():
	}
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, t); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	} else {
		s.release() // it was granted meanwhile
	}
	return false
}

// yield is called often by a compilation that has a processor. It pauses if another has priority, and reports whether
// the compilation may go on, whose ctx may end meanwhile.
func (t *turn) yield(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(t.since) < t.turns.slice {
		return true
	}
	s := t.turns
	s.mu.Lock()
	t.addTime(now)
	t.since = now
	next := s.best()
	if next == nil || !next.before(t) {
		s.mu.Unlock()
		return true
	}
	t.enqueue()
	t.since = time.Time{}
	s.release()
	s.mu.Unlock()
	return t.wait(ctx)
}

// addTime adds the time since the slice began. The lock is held.
func (t *turn) addTime(now time.Time) {
	ran := now.Sub(t.since)
	t.ran += ran
	t.client.ran += ran
}

// before reports whether t has priority over other.
func (t *turn) before(other *turn) bool {
	switch {
	case t.client.ran != other.client.ran:
		return t.client.ran < other.client.ran
	case t.ran != other.ran:
		return t.ran < other.ran
	}
	return t.arrival < other.arrival
}

// best returns the queued turn with the highest priority, nil when none waits. The lock is held.
func (s *turns) best() (best *turn) {
	for _, t := range s.queue {
		if best == nil || t.before(best) {
			best = t
		}
	}
	return best
}

// release hands a processor to the best of those that wait. The lock is held.
func (s *turns) release() {
	t := s.best()
	if t == nil {
		s.free++
		return
	}
	i := slices.Index(s.queue, t)
	s.queue = slices.Delete(s.queue, i, i+1)
	close(t.granted)
}

// end releases the processor and the client's slot, and returns how long the compilation ran without its pauses.
func (t *turn) end() time.Duration {
	s := t.turns
	s.mu.Lock()
	if !t.since.IsZero() {
		t.addTime(time.Now())
		t.since = time.Time{}
		s.release()
	}
	ran := t.ran
	s.mu.Unlock()
	<-t.client.slots
	t.remove()
	return ran
}

// remove removes the turn, and with its last turn the client.
func (t *turn) remove() {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	t.client.ran -= t.ran
	if t.client.turns--; t.client.turns == 0 {
		delete(s.clients, t.client.name)
	}
}
