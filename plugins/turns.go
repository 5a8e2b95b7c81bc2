package plugins

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"tgi/runtime/llm"
)

const (
	// turnSlice is how long a call may keep a processor while others wait for one. Nearly every real schema and
	// conversation takes less.
	turnSlice = 50 * time.Millisecond
	// clientTurns is how many calls of one client may be under way, because each has an instance of the plugin.
	clientTurns = 32
)

// Turns shares the processors fairly among the calls of guests outside the token loop, such as compilations of grammars
// and renderings of prompts, and the host's own work of this kind: one client's calls hardly delay another's. If there
// are several processors, it leaves one to the steps: each of the others runs one call, and a call that has run for a
// slice pauses if another has priority.
//
// Priority goes to the client that got the least time so far, then to its call that got the least: fair queueing in two
// levels. Each level has a clock of virtual time, which advances by the time used divided by the number of competitors;
// a new or returning competitor starts no lower than the clock. So nobody saves up time without waiting, and a stream
// of short calls gets no more than one long call: a short call waits for about one slice of each long call, and a long
// call ends although short ones keep coming.
type Turns struct {
	mu      sync.Mutex // guards all fields of its turns, tickets and clients, except where noted
	slice   time.Duration
	free    int     // processors
	queue   []*turn // turns that wait for a processor
	clients map[string]*turnClient
	clock   fairClock // of the clients
	numbers uint64    // counts arrivals and grants
}

// fairClock is the virtual time of those that share something.
type fairClock struct {
	now    time.Duration
	active int // competitors: those that have a processor or wait for one
}

// advance records the time that one competitor used.
func (c *fairClock) advance(ran time.Duration) { c.now += ran / time.Duration(c.active) }

// reach advances the clock to the time that the competitor served now has used: those that wait have used no less.
func (c *fairClock) reach(spent time.Duration) { c.now = max(c.now, spent) }

// turnClient is a client that has calls or is ahead of the clock.
type turnClient struct {
	tickets int           // that have not ended
	spent   time.Duration // virtual time, without the slices that run
	queued  int           // tickets that wait for a processor
	running int           // tickets whose turn has one by them
	served  uint64        // the number of the last grant; before the first, of the client
	clock   fairClock     // of the tickets
	slots   int           // taken
	waiting []*ticket     // for a slot
}

// turn is one call.
type turn struct {
	turns   *Turns
	tickets []*ticket
	started chan struct{} // closed once a ticket is admitted
	begun   bool          // it is closed
	queued  bool
	ended   bool
	granted chan struct{} // gets one when the processor is handed over to a turn that waits
	paying  *ticket       // for the processor; nil without one. The call's goroutine may read it while it is not queued
	since   time.Time     // when the slice began. The call's goroutine may read it while it is not queued
	ran     time.Duration
}

// ticket is the claim of one client that waits for a turn's result. Each slice is charged to the client whose ticket
// had priority.
type ticket struct {
	turn     *turn
	client   *turnClient
	admitted bool          // it has a slot, or needs none
	slot     bool          // it has one
	spent    time.Duration // in the virtual time of the client
	arrival  uint64
}

// turnProcessors is how many calls run at once.
func turnProcessors() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// NewTurns makes one for all processors but one.
func NewTurns() *Turns {
	return &Turns{slice: turnSlice, free: turnProcessors(), clients: map[string]*turnClient{}}
}

// register makes a turn of a client, and waits until the client may have one more call, or ctx ends. The turn is
// to be ended.
func (s *Turns) register(ctx context.Context, client string) (*turn, error) {
	t := s.newTurn()
	t.join(client)
	if !t.start(ctx) {
		t.end()
		return nil, context.Cause(ctx)
	}
	return t, nil
}

// begin makes a turn of a client for a call that begins a sequence, or a mask of one that takes long. It takes no slot:
// its instance, if there is one, stays in use, which has bounds of its own, and a request that has instances must not
// wait for others to give up slots. The turn is to be ended.
func (s *Turns) begin(client string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.newTurn()
	t.add(client).admit()
	return t
}

// Work is a piece of the host's own work that takes turns with the calls of guests, such as reading a long request. Its
// methods belong to one goroutine.
type Work struct{ turn *turn }

// Begin makes a piece of work of a client. It is to be ended.
func (s *Turns) Begin(client string) Work { return Work{s.begin(client)} }

// Take waits for a processor, and reports whether it came before ctx ended.
func (w Work) Take(ctx context.Context) bool { return w.turn.take(ctx) }

// Yield is called often by work that has a processor, and waits if another has priority. It returns false when ctx
// ended.
func (w Work) Yield(ctx context.Context) bool {
	_, on := w.turn.yield(ctx)
	return on
}

// End gives the processor back.
func (w Work) End() { w.turn.end() }

func (s *Turns) newTurn() *turn {
	return &turn{turns: s, started: make(chan struct{}), granted: make(chan struct{}, 1)}
}

// join adds a client that waits for the same result: at any time, the call has the highest priority among its clients.
func (t *turn) join(client string) {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[client]
	if t.ended || slices.ContainsFunc(t.tickets, func(k *ticket) bool { return k.client == c }) {
		return
	}
	k := t.add(client)
	if k.client.slots < clientTurns {
		k.takeSlot()
	} else {
		k.client.waiting = append(k.client.waiting, k)
	}
}

// add adds a client's ticket. The lock is held.
func (t *turn) add(client string) *ticket {
	s := t.turns
	c := s.clients[client]
	if c == nil {
		s.numbers++
		c = &turnClient{served: s.numbers}
		s.clients[client] = c
	}
	c.tickets++
	k := &ticket{turn: t, client: c}
	t.tickets = append(t.tickets, k)
	return k
}

// takeSlot gives the ticket a slot. The lock is held.
func (k *ticket) takeSlot() {
	k.client.slots++
	k.slot = true
	k.admit()
}

// admit lets the turn run by the ticket. The lock is held.
func (k *ticket) admit() {
	t := k.turn
	k.admitted = true
	if !t.begun {
		t.begun = true
		close(t.started)
	}
	if t.queued {
		k.enter()
	}
}

// start waits for a slot and reports whether it came before ctx, the call's, ended.
func (t *turn) start(ctx context.Context) bool {
	select {
	case <-t.started:
		return true
	default:
	}
	defer llm.Waited(ctx, time.Now())
	select {
	case <-t.started:
		return true
	case <-ctx.Done():
		return false
	}
}

// take waits for a processor, unless the turn has one, and reports whether it came before ctx, the call's, ended.
func (t *turn) take(ctx context.Context) bool {
	if t.paying != nil {
		return true
	}
	s := t.turns
	s.mu.Lock()
	t.enqueue()
	if s.free > 0 { // nobody else waits
		s.free--
		t.best().grant()
		s.mu.Unlock()
		return true
	}
	s.mu.Unlock()
	return t.wait(ctx)
}

// wait waits for a processor in the queue.
func (t *turn) wait(ctx context.Context) bool {
	defer llm.Waited(ctx, time.Now())
	select {
	case <-t.granted:
		return true
	case <-ctx.Done():
	}
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.queued {
		t.dequeue()
		return false
	}
	<-t.granted // it was, meanwhile
	t.settle(time.Now())
	s.release()
	return false
}

// yield is called often by a call that has a processor. It waits if another has priority. on is false when ctx, the
// call's, ended.
func (t *turn) yield(ctx context.Context) (waited, on bool) {
	if t.paying == nil {
		return false, false // an earlier wait was cancelled
	}
	now := time.Now()
	if now.Sub(t.since) < t.turns.slice {
		return false, true
	}
	s := t.turns
	s.mu.Lock()
	t.settle(now)
	t.enqueue()
	if best := s.best(); best.turn == t {
		best.grant()
		s.mu.Unlock()
		return false, true
	}
	s.release()
	s.mu.Unlock()
	return true, t.wait(ctx)
}

// pause gives the processor up for a time, and takes it again unless ctx, the call's, ends.
func (t *turn) pause(ctx context.Context, d time.Duration) {
	t.release()
	began := time.Now()
	select {
	case <-time.After(d):
		llm.Waited(ctx, began)
		t.take(ctx)
	case <-ctx.Done():
	}
}

// release gives the processor up, if there is one.
func (t *turn) release() {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.paying != nil {
		t.settle(time.Now())
		s.release()
	}
}

// guestTurn is a turn as a guest's calls take it, in a context. It implements sandbox.Turn.
type guestTurn struct {
	turn *turn
	// ctx is the context of the guest's call, which the guestTurn does not outlive. It is a field because the methods
	// of sandbox.Turn have no parameters.
	ctx context.Context
}

// Take implements sandbox.Turn.
func (g guestTurn) Take() bool { return g.turn.take(g.ctx) }

// Yield implements sandbox.Turn.
func (g guestTurn) Yield() (waited, on bool) { return g.turn.yield(g.ctx) }

// Release implements sandbox.Turn.
func (g guestTurn) Release() { g.turn.release() }

// end releases the processor and the slots, and returns how long the call had a processor.
func (t *turn) end() time.Duration {
	t.release()
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ended = true
	for _, k := range t.tickets {
		k.end()
	}
	s.forget()
	return t.ran
}

// end gives the slot to the next of the client. The lock is held.
func (k *ticket) end() {
	c := k.client
	c.tickets--
	if !k.slot {
		c.waiting = slices.DeleteFunc(c.waiting, func(other *ticket) bool { return other == k })
		return
	}
	c.slots--
	if len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		next.takeSlot()
	}
}

// forget removes the clients whose state has no effect any more. While nobody wants a processor, nobody is owed time.
// The lock is held.
func (s *Turns) forget() {
	for name, c := range s.clients {
		if c.tickets == 0 && (c.spent <= s.clock.now || s.clock.active == 0) {
			delete(s.clients, name)
		}
	}
	if len(s.clients) == 0 {
		s.clock.now = 0
	}
}

// enqueue has the turn wait in the queue. The lock is held.
func (t *turn) enqueue() {
	t.queued = true
	t.turns.queue = append(t.turns.queue, t)
	for _, k := range t.tickets {
		if k.admitted {
			k.enter()
		}
	}
}

// dequeue ends the wait. The lock is held.
func (t *turn) dequeue() {
	s := t.turns
	t.queued = false
	i := slices.Index(s.queue, t)
	s.queue = slices.Delete(s.queue, i, i+1)
	for _, k := range t.tickets {
		if k.admitted {
			s.count(k.client, -1, 0)
		}
	}
}

// enter lets the ticket wait. The lock is held.
func (k *ticket) enter() {
	s, c := k.turn.turns, k.client
	if c.queued == 0 {
		c.spent = max(c.spent, s.clock.now)
	}
	k.spent = max(k.spent, c.clock.now)
	s.numbers++
	k.arrival = s.numbers
	s.count(c, 1, 0)
}

// count changes how many of a client's tickets wait and run. The lock is held.
func (s *Turns) count(c *turnClient, queued, running int) {
	was := c.clock.active
	c.queued += queued
	c.running += running
	c.clock.active = c.queued + c.running
	s.clock.active += min(c.clock.active, 1) - min(was, 1)
}

// grant gives the ticket's turn, which waits, a processor for a slice. The lock is held.
func (k *ticket) grant() {
	t, c := k.turn, k.client
	s := t.turns
	t.dequeue()
	s.count(c, 0, 1)
	s.numbers++
	c.served = s.numbers
	s.clock.reach(c.spent)
	c.clock.reach(k.spent)
	t.paying, t.since = k, time.Now()
}

// settle counts the time since the slice began, and leaves it to the caller who gets the processor. The lock is held.
func (t *turn) settle(now time.Time) {
	s, k, ran := t.turns, t.paying, now.Sub(t.since)
	c := k.client
	s.clock.advance(ran)
	c.clock.advance(ran)
	s.count(c, 0, -1)
	t.ran += ran
	k.spent += ran
	c.spent += ran
	t.paying = nil
}

// release hands a processor to the best of those that wait. The lock is held.
func (s *Turns) release() {
	k := s.best()
	if k == nil {
		s.free++
		return
	}
	k.grant()
	k.turn.granted <- struct{}{}
}

// best returns the ticket with the highest priority in the queue, nil when none waits. The lock is held.
func (s *Turns) best() (best *ticket) {
	for _, t := range s.queue {
		if k := t.best(); best == nil || k.before(best) {
			best = k
		}
	}
	return best
}

// best returns the turn's ticket with the highest priority. The lock is held.
func (t *turn) best() (best *ticket) {
	for _, k := range t.tickets {
		if k.admitted && (best == nil || k.before(best)) {
			best = k
		}
	}
	return best
}

// before reports whether k has priority over other.
func (k *ticket) before(other *ticket) bool {
	c, o := k.client, other.client
	switch {
	case c == o && k.spent != other.spent:
		return k.spent < other.spent
	case c == o:
		return k.arrival < other.arrival
	}
	// the slices that run count as used up: several processors can come free at once
	slice := k.turn.turns.slice
	if mine, theirs := c.spent+time.Duration(c.running)*slice, o.spent+time.Duration(o.running)*slice; mine != theirs {
		return mine < theirs
	}
	return c.served < o.served
}
