package server

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	limiter "golang.org/x/time/rate"

	"tgi/server/generate"
)

// What clients may have of the processors' time beside the model, while others wait for tokens. A request that no model
// computes, such as one that is refused or a look at the metrics, waits for no model, so a client gets thousands per
// second on one connection, and their work takes the cores from the steps, each of which waits for the slowest core.
const (
	// clientPart is a client's part of each core, in a second, and allPart that of all clients together, which they
	// share evenly. None has less than leastPart: those who ask now and then never notice a flood of many.
	clientPart = 100 * time.Millisecond
	allPart    = 250 * time.Millisecond
	leastPart  = 250 * time.Microsecond
	// rest is the time whose part a client has at once after a rest, and leastRest what it has at least, for each core.
	rest      = 80 * time.Millisecond
	leastRest = time.Millisecond
	// refusalCost is what a refused request counts as at least, quickCost any other, with what is done for a request
	// before and after: they count as what their handler takes. One that a model was asked for has waited for it, so
	// when it is refused it counts as the least.
	refusalCost = 800 * time.Microsecond
	quickCost   = 200 * time.Microsecond
	// longestHold is how long a reply is held at most. Who owes more gets a refusal in place of what costs more than
	// that. longestDebt is what a client may owe at most.
	longestHold = time.Second
	longestDebt = time.Minute
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
	clients map[string]*account // of those that had any in the last seconds
	swept   time.Time
	warned  time.Time
}

// account is what a client has of the processors' time, in microseconds.
type account struct {
	*limiter.Limiter
	used time.Duration // since the log last spoke of clients
}

// owed is how long it takes at now until the client owes nothing.
func (a *account) owed(now time.Time) time.Duration {
	short := -a.TokensAt(now)
	if short <= 0 {
		return 0
	}
	return time.Duration(short / float64(a.Limit()) * float64(time.Second))
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
	works := took - out.waited - time.Duration(v.waited.Load())
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

// noteRoute keeps for the log which route a request takes.
func (v *requestLog) noteRoute(route *Route) {
	if v != nil {
		v.open, v.probe = route.Scope.open(), slices.Contains(Probes(), route.Path)
	}
}

// noteWork keeps for the log what the request was, when its handler has returned.
func (v *requestLog) noteWork(route *Route, o *operation) {
	if v != nil {
		v.computed = route.Scope == Admin || o.called()
	}
}

// overdrawn returns the refusal of a request that no model computes, of a client that owes much; nil for any other.
// Routers decide by probes, and administrators must get through.
func (s *Server) overdrawn(r *http.Request, route *Route, v *requestLog) error {
	if v == nil || v.probe || route.Scope != Listing && !route.Scope.open() && !route.Light {
		return nil
	}
	return s.owing(v.account(r), "")
}

// owing returns the refusal of a client that owes much, nil for any other. what is refused beside requests that no
// model computes.
func (s *Server) owing(account, what string) error {
	owed := s.holds.owes(account, time.Now())
	if owed == 0 {
		return nil
	}
	return &generate.Overloaded{RetryAfter: owed, Reason: fmt.Sprintf("while others generate, requests of one client "+
		"that no model computes have a tenth of the processors' time. This one has had it for the next %s%s",
		owed.Round(time.Millisecond), what)}
}

// waitedBody adds up how long its reader waits for the client.
type waitedBody struct {
	io.ReadCloser
	log *requestLog
}

func (b waitedBody) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.log.wait(time.Since(began))
	return n, err
}

// reserve counts what a request costs and returns how long to hold it.
func (f *holds) reserve(client string, cost time.Duration, now time.Time) (hold time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) > longestHold {
		f.sweep(now)
	}
	a := f.clients[client]
	fresh := a == nil
	if fresh {
		a = &account{}
		f.clients[client] = a
	}
	part := max(leastPart, min(clientPart, allPart/time.Duration(len(f.clients))))
	atOnce := max(leastRest, time.Duration(part.Seconds()*float64(rest)))
	cores := time.Duration(runtime.GOMAXPROCS(0))
	rate, burst := limiter.Limit(cores*part/time.Microsecond), int(cores*atOnce/time.Microsecond)
	if fresh {
		a.Limiter = limiter.NewLimiter(rate, burst)
	} else {
		a.SetLimitAt(now, rate)
		a.SetBurstAt(now, burst)
	}
	a.used += cost
	left := int(cost / time.Microsecond)
	if a.owed(now) > longestDebt { // its part became smaller since
		a.Limiter = limiter.NewLimiter(rate, burst)
		left = burst + int(longestDebt.Seconds()*float64(rate))
	}
	for ; left > 0; left -= burst {
		r := a.ReserveN(now, min(left, burst))
		if r.DelayFrom(now) > longestDebt { // it must not owe ever more
			r.CancelAt(now)
			break
		}
	}
	return min(a.owed(now), longestHold)
}

// owes is how long it takes until a client that owes much owes nothing, 0 for any other, and while nobody waits for
// tokens.
func (f *holds) owes(client string, now time.Time) time.Duration {
	if busy := f.busy.Load(); busy == nil || !(*busy)() {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.clients[client]; a != nil {
		if owed := a.owed(now); owed > longestHold {
			return owed
		}
	}
	return 0
}

// most returns the client that used most since this was called before. The lock is held.
func (f *holds) most() (client string) {
	var most time.Duration
	for name, a := range f.clients {
		if a.used > most {
			client, most = name, a.used
		}
		a.used = 0
	}
	return client
}

// sweep forgets the clients that may have as much as after a rest again. The lock is held.
func (f *holds) sweep(now time.Time) {
	f.swept = now
	if f.clients == nil {
		f.clients = map[string]*account{}
	}
	for name, a := range f.clients {
		if a.TokensAt(now) >= float64(a.Burst()) {
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
	warn, most := now.Sub(f.warned) >= holdLogInterval, ""
	if warn {
		f.warned, most = now, f.most()
	}
	f.mu.Unlock()
	if warn {
		s.options.Log.Warn("replies are held back: requests that no model computes take more than their part of the "+
			"processors' time while others generate", "most_by", most)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gate.closing:
	}
}
