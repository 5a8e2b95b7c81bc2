package server

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	limiter "golang.org/x/time/rate"
)

// What one client may have of refusals while others wait for tokens. A request that is refused waits for no model, so
// a client gets thousands of refusals per second on one connection, and their work takes the cores from the steps,
// each of which waits for the slowest core.
const (
	// refusalsPerCore is how many a client gets per second, for each core: about a tenth of the core's time.
	refusalsPerCore = 125
	// refusalBurst is how many come at once after a rest, for each core.
	refusalBurst = 10
	// longestHold is how long a reply is held at most.
	longestHold = time.Second
	// holdLogInterval is the time between two lines of the log about replies that are held.
	holdLogInterval = time.Minute
)

// refusals holds back replies of refused requests: the client sends its next request on the connection after that. The
// request has given up all else, such as its places and its body. Requests that are not refused never wait, those of
// the same client included.
type refusals struct {
	// busy says that others wait for tokens; nil is never.
	busy atomic.Pointer[func() bool]

	mu      sync.Mutex
	clients map[string]*limiter.Limiter // those that had any in the last seconds
	swept   time.Time
	warned  time.Time
}

// WatchDemand has replies of refused requests held back while busy returns true, if one client has many. busy is called
// from any goroutine and must not block.
func (s *Server) WatchDemand(busy func() bool) { s.refusals.busy.Store(&busy) }

// refused reports whether a request counts as refused: for what it is or for what its plugins did, not for how busy the
// server is, which routers should see at once. A stream may say so in its last event.
func (v *requestLog) refused(status int) bool {
	if v.err != nil && status < http.StatusBadRequest {
		status = Explain(v.err).Status
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests
}

// reserve counts a refusal and returns how long to hold it.
func (f *refusals) reserve(client string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) > longestHold {
		f.sweep(now)
	}
	l := f.clients[client]
	if l == nil {
		cores := runtime.GOMAXPROCS(0)
		l = limiter.NewLimiter(limiter.Limit(refusalsPerCore*cores), refusalBurst*cores)
		f.clients[client] = l
	}
	r := l.ReserveN(now, 1)
	hold := r.DelayFrom(now)
	if hold > longestHold { // it must not owe ever more
		r.CancelAt(now)
		hold = longestHold
	}
	return hold
}

// sweep forgets the clients that may have a whole burst again. The lock is held.
func (f *refusals) sweep(now time.Time) {
	f.swept = now
	if f.clients == nil {
		f.clients = map[string]*limiter.Limiter{}
	}
	for name, l := range f.clients {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(f.clients, name)
		}
	}
}

// hold holds the reply of a refused request back for as long as its client has to wait, or until the server closes. It
// is not cut short when the client hangs up, or else that would be the way to have more.
func (s *Server) hold(client string) {
	f := &s.refusals
	now := time.Now()
	wait := f.reserve(client, now)
	busy := f.busy.Load()
	if wait <= 0 || busy == nil || !(*busy)() {
		return
	}
	f.mu.Lock()
	warn := now.Sub(f.warned) >= holdLogInterval
	if warn {
		f.warned = now
	}
	f.mu.Unlock()
	if warn {
		s.options.Log.Warn("replies to a client's refused requests are held back: it has many while others generate",
			"client", client, "per_second", refusalsPerCore*runtime.GOMAXPROCS(0))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gate.closing:
	}
}
