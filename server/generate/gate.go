package generate

import (
	"context"
	"time"
)

// Gate is what the requests of a model that does not generate share fairly between clients: places, and workers that
// encode texts.
type Gate struct {
	permits *permits
	workers *workers
}

// NewGate returns a gate for so many requests at once, whose texts so many workers encode.
func NewGate(places, encoding int) *Gate {
	return &Gate{permits: newPermits(places), workers: &workers{free: encoding}}
}

// Enter takes a place for a request of client until leave is called, or returns an *Overloaded.
func (g *Gate) Enter(client string) (leave func(), err error) {
	if err := g.permits.take(client, 1, time.Now()); err != nil {
		return nil, err
	}
	return func() { g.permits.give(client, 1, time.Now()) }, nil
}

// Work calls f while few others of the gate do. Clients take turns. It gives up waiting when ctx ends.
func (g *Gate) Work(ctx context.Context, client string, f func()) error {
	if err := g.workers.enter(ctx, client); err != nil {
		return err
	}
	defer g.workers.leave(client)
	f()
	return nil
}
