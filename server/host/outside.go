package host

import (
	"sync"
	"time"

	"tgi/runtime/engine"
)

// OutsideShare observes how much of the steps' time is not the forward pass. It is for Options.Observer.
type OutsideShare struct {
	mu              sync.Mutex
	total, outwards time.Duration
}

// Step implements engine.Observer.
func (s *OutsideShare) Step(r engine.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += r.Total
	s.outwards += r.Total - r.Forward
}

// Take returns the share since the last call.
func (s *OutsideShare) Take() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := float64(s.outwards) / max(float64(s.total), 1)
	s.total, s.outwards = 0, 0
	return share
}
