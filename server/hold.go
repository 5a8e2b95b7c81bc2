package server

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	limiter "golang.org/x/time/rate"
)

// What clients may have of the processors' time beside the model, while others wait for tokens. A request that no model
// computes, such as one that is refused or a look at the metrics, waits for no model, so a client gets thousands per
// second on one connection, and their work takes the cores from the steps, each of which waits for the slowest core.
const (
	// clientPart is a client's part of each core, in a second, and allPart that of all clients together, which they
	// share evenly. None has less than leastPart: those who ask now and then never notice a flood of many.
	clientPart = 100 * time.Millisecond
	allPart    = 250 * time.Millisecond
	leastPart  = 5 * time.Millisecond
	// restPart is what a client has at once after a rest, for each core.
	restPart = 8 * time.Millisecond
	// refusalCost is what a refused request counts as at least, quickCost any other, with what is done for a request
	// before and after: they count as what their handler takes. One that a model was asked for has waited for it, so
	// when it is refused it counts as the least.
	refusalCost = 800 * time.Microsecond
	quickCost   = 200 * time.Microsecond
	// longestHold is how long a reply is held at most.
	longestHold = time.Second
	// holdLogInterval is the time between two lines of the log about replies that are held.
	holdLogInterval = time.Minute
)

// holds holds back replies of requests that no model computed: the client sends its next request on the connection
// after that. The request has given up all else, such as its places and its body. Requests that a model computes never
// wait, those of the same client included.
type holds struct {
	// busy says that others wait for tokens; nil is never.
	busy atomic.Pointer[func() bool]

	mu      sync.Mutex
	clients map[string]*limiter.Limiter // of microseconds, of those that had any in the last seconds
	swept   time.Time
	warned  time.Time
}

// WatchDemand has replies of requests that no model computes held back while busy returns true, if one client has many.
// busy is called from any goroutine and must not block.
func (s *Server) WatchDemand(busy func() bool) { s.holds.busy.Store(&busy) }

// refused reports whether a request counts as refused: for what it is or for what its plugins did, not for how busy the
// server is. A stream may say so in its last event.
func (v *requestLog) refused(status int) bool {
	if v.err != nil && status < http.StatusBadRequest {
		status = Explain(v.err).Status
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests
}

// cost is what a request counts for that took so long, and replied with out. It is 0 for what a model computed, for
// administrators, and for errors of the server, which routers should see at once.
func (v *requestLog) cost(out *reply, took time.Duration) time.Duration {
	works := took - out.waited - v.waited
	switch {
	case v.refused(out.status) && v.computed:
		return refusalCost
	case v.refused(out.status):
		return max(refusalCost, works)
	case out.status == http.StatusTooManyRequests:
		return quickCost
	case v.computed || out.status >= http.StatusInternalServerError || out.status == http.StatusSwitchingProtocols:
		return 0
	case out.flushed: // it sends what comes, and waits for it
		return quickCost
	}
	return max(quickCost, works)
}

// account is what a request is charged to. A client's probes have one of their own, and so have all other requests that
// need no key, such as for metrics: what others behind the same proxy, who are the same client, ask for does not make
// probes slow unless it is probes.
func (v *requestLog) account(r *http.Request) string {
	switch name := v.client(r); {
	case v.probe:
		return name + ", probes"
	case v.open:
		return name + ", metrics"
	default:
		return name
	}
}

// noteWork keeps for the log what the request of ctx was, when its handler has returned.
func noteWork(ctx context.Context, route *Route, o *operation) {
	v, ok := ctx.Value(requestLogKey{}).(*requestLog)
	if !ok {
		return
	}
	v.open, v.probe = route.Scope.open(), slices.Contains(Probes(), route.Path)
	v.computed = route.Scope == Admin || o.called()
}

// waitedBody adds up how long its reader waits for the client.
type waitedBody struct {
	io.ReadCloser
	log *requestLog
}

func (b waitedBody) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.log.waited += time.Since(began)
	return n, err
}

// reserve counts what a request costs and returns how long to hold it.
func (f *holds) reserve(client string, cost time.Duration, now time.Time) (hold time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) > longestHold {
		f.sweep(now)
	}
	l, cores := f.clients[client], time.Duration(runtime.GOMAXPROCS(0))
	if l == nil {
		l = limiter.NewLimiter(0, int(cores*restPart/time.Microsecond))
		f.clients[client] = l
	}
	part := max(leastPart, min(clientPart, allPart/time.Duration(len(f.clients))))
	l.SetLimitAt(now, limiter.Limit(cores*part/time.Microsecond))
	for left := int(cost / time.Microsecond); left > 0; left -= l.Burst() {
		r := l.ReserveN(now, min(left, l.Burst()))
		if hold = r.DelayFrom(now); hold > longestHold { // it must not owe ever more
			r.CancelAt(now)
			return longestHold
		}
	}
	return hold
}

// sweep forgets the clients that may have as much as after a rest again. The lock is held.
func (f *holds) sweep(now time.Time) {
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

// hold holds a reply back for as long as its client has to wait, or until the server closes. It is not cut short when
// the client hangs up, or else that would be the way to have more.
func (s *Server) hold(client string, cost time.Duration) {
	if cost == 0 {
		return
	}
	f := &s.holds
	now := time.Now()
	wait := f.reserve(client, cost, now)
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
		s.options.Log.Warn("replies to a client are held back: its requests that no model computes take more than "+
			"their part of the processors' time while others generate", "client", client)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gate.closing:
	}
}
