package sandbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// laneTurn is how long a compilation may keep others waiting.
const laneTurn = 2 * time.Second

// lanes is the queue of the process's compilations, first come first served. At most two run at once: one in the quick
// lane, where each begins, and one in the slow lane. One that has had its turn in the quick lane while others wait
// moves to the slow lane, or, where another is there, is ended and begins anew when the slow lane is free: so a module
// that takes long delays others of its sort alone.
type lanes struct {
	quick, slow chan struct{} // each holds one token while the lane is taken
	waiting     atomic.Int64  // for the quick lane
}

func newLanes() *lanes {
	return &lanes{quick: make(chan struct{}, 1), slow: make(chan struct{}, 1)}
}

var compilations = newLanes()

// enter waits for a lane.
func enter(ctx context.Context, lane chan struct{}) error {
	select {
	case lane <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run has start begin a compilation and sees it to its end. start returns a channel that gets the outcome, and what
// ends the compilation at once; it may be called twice.
func (l *lanes) run(ctx context.Context, turn time.Duration, start func() (done <-chan error, end func(),
	err error)) error {
	l.waiting.Add(1)
	err := enter(ctx, l.quick)
	l.waiting.Add(-1)
	if err != nil {
		return err
	}
	lane := l.quick
	defer func() {
		if lane != nil {
			<-lane
		}
	}()
	done, end, err := start()
	if err != nil {
		return err
	}
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			end()
			<-done
			return context.Cause(ctx)
		case <-tick.C:
		}
		if lane == l.slow || l.waiting.Load() == 0 {
			continue
		}
		select {
		case l.slow <- struct{}{}:
			<-lane
			lane = l.slow
			continue
		default:
		}
		end()
		<-done
		<-lane
		lane = nil
		if err := enter(ctx, l.slow); err != nil {
			return err
		}
		lane = l.slow
		if done, end, err = start(); err != nil {
			return err
		}
	}
}

// byKey lets one at a time do something of the same key.
type byKey struct {
	mu    sync.Mutex
	users map[string]*keyUsers
}

type keyUsers struct {
	n    int
	turn chan struct{} // holds a token while one of them works
}

// lock waits for the key. The returned function lets it go.
func (b *byKey) lock(ctx context.Context, key string) (unlock func(), err error) {
	b.mu.Lock()
	if b.users == nil {
		b.users = map[string]*keyUsers{}
	}
	u := b.users[key]
	if u == nil {
		u = &keyUsers{turn: make(chan struct{}, 1)}
		b.users[key] = u
	}
	u.n++
	b.mu.Unlock()
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if u.n--; u.n == 0 {
			delete(b.users, key)
		}
	}
	if err := enter(ctx, u.turn); err != nil {
		leave()
		return nil, err
	}
	return func() { <-u.turn; leave() }, nil
}
