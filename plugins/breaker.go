package plugins

import (
	"fmt"
	"sync"
	"time"
)

// breakers switch one version of a plugin off for a client after too many faulty requests of that client in a row.
// Clients choose what plugins see, so what one of them brings about holds for nobody else, however many there are. They
// are consulted when a request is bound and notified when it ends, never per token.
type breakers struct {
	limit int // 0: never
	pause time.Duration

	mu       sync.Mutex
	byClient map[string]*breaker // of the clients that had a faulty request since their last good one
}

// maxBreakers bounds how many clients have a breaker; beyond it, the client with the oldest last fault is
// forgotten.
const maxBreakers = 1024

// trial is what a request holds that tries a plugin which was off for its client; the zero trial is none.
type trial struct {
	of      *breaker
	number  uint64
	request string
}

// admit lets a request of a client through, or returns why not. The trial must end with cancelTrial, after success or
// fault if there was one. All that a request with a name binds, at whatever time, is part of the same trial.
func (b *breakers) admit(now time.Time, client, request string) (t trial, refused string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byClient[client]
	if own == nil {
		return trial{}, ""
	}
	number, refused := own.admit(now, request)
	if number == 0 {
		return trial{}, refused
	}
	return trial{own, number, request}, ""
}

// isOff reports whether a request of a client would not be let through, without trying.
func (b *breakers) isOff(now time.Time, client, request string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byClient[client]
	return own != nil && own.isOff(now) && !own.triedBy(request)
}

// fault counts a faulty request that was admitted. It returns the reason if this switched the plugin off for its
// client, else "".
func (b *breakers) fault(now time.Time, client, cause string, t trial) (off string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byClient[client]
	if own == nil {
		if len(b.byClient) >= maxBreakers {
			delete(b.byClient, b.oldest())
		}
		if b.byClient == nil {
			b.byClient = map[string]*breaker{}
		}
		own = &breaker{limit: b.limit, pause: b.pause}
		b.byClient[client] = own
	}
	own.lastFaultAt = now
	return own.fault(now, cause, t.numberOf(own))
}

// numberOf is the number of a trial of that breaker, else 0.
func (t trial) numberOf(b *breaker) uint64 {
	if t.of != b {
		return 0
	}
	return t.number
}

// oldest returns the client whose last fault is oldest. The lock is held.
func (b *breakers) oldest() (client string) {
	first := true
	for c, own := range b.byClient {
		if first || own.lastFaultAt.Before(b.byClient[client].lastFaultAt) {
			client, first = c, false
		}
	}
	return client
}

// success counts a request without a fault and reports whether it switched the plugin on again.
func (b *breakers) success(client string, t trial) (on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byClient[client]
	if own == nil {
		return false
	}
	if on = own.success(t.numberOf(own)); !own.off {
		delete(b.byClient, client)
	}
	return on
}

// cancelTrial ends a request's part in a trial. One that ends without a result lets the next request try.
func (b *breakers) cancelTrial(t trial) {
	if t.of != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		t.of.cancelTrial(t.number, t.request)
	}
}

// offClients counts the clients for which the plugin is off, and returns the last fault of the latest of them.
func (b *breakers) offClients(now time.Time) (n int, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var latest time.Time
	for _, own := range b.byClient {
		if !own.isOff(now) {
			continue
		}
		if n++; n == 1 || own.since.After(latest) {
			latest, last = own.since, own.lastCause
		}
	}
	return n, last
}

// breaker is a circuit breaker of one client.
type breaker struct {
	limit       int // 0: never
	pause       time.Duration
	lastFaultAt time.Time

	consecutive int // faulty requests since the last good one
	off         bool
	since       time.Time
	until       time.Time      // nobody else may try it before
	lastCause   string         // the fault that switched it off
	trials      uint64         // started so far
	void        uint64         // those up to this number began before it was last switched off, and tell nothing
	trying      map[string]int // how much of each request tries it now; those without a name count together
}

// admit lets a request through, or returns why not. trial is not 0 when the request is one that tries a plugin that
// was off. A trial that takes longer than the pause keeps others off no more.
func (b *breaker) admit(now time.Time, request string) (trial uint64, refused string) {
	switch {
	case !b.off:
		return 0, ""
	case b.triedBy(request):
		b.trying[request]++
		return b.trials, ""
	case now.Before(b.until):
		return 0, b.reasonText()
	}
	if b.trying == nil {
		b.trying = map[string]int{}
	}
	b.trials++
	b.trying[request]++
	b.until = now.Add(b.pause)
	return b.trials, ""
}

// triedBy reports whether a request, which has a name, tries the plugin already.
func (b *breaker) triedBy(request string) bool { return request != "" && b.trying[request] > 0 }

// fault counts a faulty request that was admitted. It returns the reason if this switched the plugin off, else
// "".
func (b *breaker) fault(now time.Time, cause string, trial uint64) (off string) {
	b.consecutive++
	switch {
	case b.limit == 0, b.off && trial <= b.void, !b.off && b.consecutive < b.limit:
		return "" // a request from before the switch-off changes nothing
	}
	b.off, b.void, b.trying = true, b.trials, nil
	b.since, b.until, b.lastCause = now, now.Add(b.pause), cause
	return b.reasonText()
}

// success counts a request without a fault and reports whether it switched the plugin on again.
func (b *breaker) success(trial uint64) bool {
	if b.off && trial <= b.void {
		return false
	}
	on := b.off
	b.off, b.consecutive, b.lastCause, b.trying = false, 0, "", nil
	return on
}

// cancelTrial ends a request's part in a trial. Where nothing tries the plugin any more, and it is still off, the next
// request may.
func (b *breaker) cancelTrial(trial uint64, request string) {
	if !b.off || trial <= b.void {
		return
	}
	if b.trying[request]--; b.trying[request] == 0 {
		delete(b.trying, request)
	}
	if len(b.trying) == 0 {
		b.until = time.Time{}
	}
}

// isOff reports whether the plugin is off; it is not once the next request may try it.
func (b *breaker) isOff(now time.Time) bool { return b.off && now.Before(b.until) }

// reasonText describes why the plugin is off.
func (b *breaker) reasonText() string {
	return fmt.Sprintf("switched off for this client at %s for %v after %d faulty requests in a row, the last: %s",
		b.since.UTC().Format(time.RFC3339), b.pause, b.consecutive, b.lastCause)
}
