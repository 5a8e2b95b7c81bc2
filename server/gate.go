package server

import "sync"

// gate counts running requests and can be closed to new ones.
type gate struct {
	mu     sync.Mutex
	inside int
	// leaving says that it will be closed, so that nobody should send more.
	leaving, closed bool
	// empty is closed when the gate is closed and no request is running.
	empty chan struct{}
	// closing is closed when the gate is.
	closing chan struct{}
}

func (g *gate) init() { g.empty, g.closing = make(chan struct{}), make(chan struct{}) }

// enter counts a request unless the gate is closed. Each enter needs a leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// announce says that the gate will be closed.
func (g *gate) announce() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaving = true
}

// announced reports whether the gate will be closed, or is.
func (g *gate) announced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leaving
}

// close lets no further request in. It may be called once.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closing)
	g.leaving = true
	if g.closed = true; g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) draining() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Load returns how many requests run, and whether the server shuts down.
func (s *Server) Load() (running int, draining bool) {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.gate.inside, s.gate.leaving
}

// count returns how many requests are running.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}
