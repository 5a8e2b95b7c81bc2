package plugins

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// breakers switch one version of a plugin off after too many faulty requests in a row: for one client after that many
// of its own, and for all after that many of at least sharedClients clients, none of which counts for more than its
// share of them. So one client's parameters and prompts can't take a plugin away from others, while a plugin that fails
// for everybody is left alone. They are consulted when a request is bound and notified when it ends, never per token.
type breakers struct {
	all breaker

	mu       sync.Mutex
	byClient map[string]*breaker // of the clients that had a faulty request since their last good one
}

const (
	// sharedClients is how many clients must see a plugin fail before it is switched off for all.
	sharedClients = 3
	// maxBreakers bounds how many clients have a breaker; beyond it, the client with the oldest last fault is
	// forgotten.
	maxBreakers = 1024
)

// trial is what a request holds that tries a plugin which was off, for all or for its client.
type trial struct{ all, own uint64 }

// forClient returns the breaker of a client, nil when there is none.
func (b *breakers) forClient(client string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byClient[client]
}

// admit lets a request of a client through; see [breaker.admit].
func (b *breakers) admit(now time.Time, client string) (t trial, refused string) {
	if t.all, refused = b.all.admit(now); refused != "" {
		return trial{}, refused
	}
	if own := b.forClient(client); own != nil {
		if t.own, refused = own.admit(now); refused != "" {
			b.all.cancelTrial(t.all)
			return trial{}, refused
		}
	}
	return t, ""
}

// isOff reports whether a request of a client would not be let through, without trying.
func (b *breakers) isOff(now time.Time, client string) bool {
	own := b.forClient(client)
	return b.all.offReason(now) != "" || own != nil && own.offReason(now) != ""
}

// fault counts a faulty request that was admitted. It returns the reason if this switched the plugin off, else
// "".
func (b *breakers) fault(now time.Time, client, cause string, t trial) (off string) {
	if client != "" {
		off = b.getOrCreate(now, client).fault(now, cause, client, t.own)
	}
	return cmp.Or(b.all.fault(now, cause, client, t.all), off)
}

// getOrCreate returns the breaker of a client and creates it if there is none.
func (b *breakers) getOrCreate(now time.Time, client string) *breaker {
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
		own = &breaker{limit: b.all.limit, pause: b.all.pause, perClient: true}
		b.byClient[client] = own
	}
	own.lastFaultAt = now
	return own
}

// oldest returns the client whose last fault is oldest. The lock is held.
func (b *breakers) oldest() (client string) {
	for c, own := range b.byClient {
		if client == "" || own.lastFaultAt.Before(b.byClient[client].lastFaultAt) {
			client = c
		}
	}
	return client
}

// success counts a request without a fault and reports whether it switched the plugin on again.
func (b *breakers) success(client string, t trial) (on bool) {
	on = b.all.success(t.all)
	own := b.forClient(client)
	if own == nil {
		return on
	}
	on = own.success(t.own) || on
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.isReset() {
		delete(b.byClient, client)
	}
	return on
}

// cancelTrial ends a trial without a result: the request ended before its plugin ran.
func (b *breakers) cancelTrial(client string, t trial) {
	b.all.cancelTrial(t.all)
	if own := b.forClient(client); own != nil {
		own.cancelTrial(t.own)
	}
}

// openClients counts the clients for which the plugin is off, and returns the last fault of one of them.
func (b *breakers) openClients(now time.Time) (n int, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, own := range b.byClient {
		if own.offReason(now) != "" {
			n, last = n+1, own.lastFault()
		}
	}
	return n, last
}

// breaker is a circuit breaker, for all clients or for one of them.
type breaker struct {
	limit       int // 0: never
	pause       time.Duration
	perClient   bool      // it belongs to one client
	lastFaultAt time.Time // guarded by the lock of breakers

	mu           sync.Mutex
	consecutive  int            // faulty requests since the last good one
	clients      map[string]int // consecutive faults per client; nil in a client's own breaker
	off          bool
	since, until time.Time
	lastCause    string // the fault that switched it off
	trial        uint64 // number of the request that tries the plugin now, 0: none
	trials       uint64 // started so far
}

// admit lets a request through, or returns why not. trial is not 0 when the request is the one that tries a plugin that
// was off; it must end with success, fault or cancelTrial.
func (b *breaker) admit(now time.Time) (trial uint64, refused string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.off {
		return 0, ""
	}
	if b.trial != 0 || now.Before(b.until) {
		return 0, b.reasonText()
	}
	b.trials++
	b.trial = b.trials
	return b.trial, ""
}

// fault counts a faulty request that was admitted. It returns the reason if this switched the plugin off, else
// "".
func (b *breaker) fault(now time.Time, cause, client string, trial uint64) (off string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limitReached := b.countFault(client)
	switch {
	case b.limit == 0, b.off && (trial == 0 || trial != b.trial), !b.off && !limitReached:
		return "" // a request from before the switch-off changes nothing
	}
	b.off, b.trial = true, 0
	b.since, b.until, b.lastCause = now, now.Add(b.pause), cause
	return b.reasonText()
}

// countFault counts a fault of a client and reports whether the limit is reached. The lock is held.
func (b *breaker) countFault(client string) (enough bool) {
	if b.perClient || client == "" {
		b.consecutive++
		return b.consecutive >= b.limit
	}
	if b.clients == nil {
		b.clients = map[string]int{}
	}
	if n := b.clients[client]; n < max(1, b.limit/sharedClients) && len(b.clients) <= b.limit+sharedClients {
		b.clients[client] = n + 1
		b.consecutive++
	}
	return b.consecutive >= b.limit && len(b.clients) >= sharedClients
}

// lastFault returns the fault that switched the plugin off.
func (b *breaker) lastFault() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastCause
}

// isReset reports whether the breaker is in its initial state.
func (b *breaker) isReset() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.off && b.consecutive == 0
}

// success counts a request without a fault and reports whether it switched the plugin on again.
func (b *breaker) success(trial uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off && (trial == 0 || trial != b.trial) {
		return false
	}
	on := b.off
	b.off, b.trial, b.consecutive, b.lastCause, b.clients = false, 0, 0, "", nil
	return on
}

// cancelTrial ends a trial without a result: the request ended before its plugin ran.
func (b *breaker) cancelTrial(trial uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial != 0 && trial == b.trial {
		b.trial = 0
	}
}

// offReason returns why the plugin is off, "" when it is on or its pause is over, since the next request tries it then.
func (b *breaker) offReason(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.off || b.trial == 0 && !now.Before(b.until) {
		return ""
	}
	return b.reasonText()
}

// reasonText describes why the plugin is off. The lock is held.
func (b *breaker) reasonText() string {
	whom := ""
	if b.perClient {
		whom = " for this client"
	}
	return fmt.Sprintf("switched off%s at %s for %v after %d faulty requests in a row, the last: %s", whom,
		b.since.UTC().Format(time.RFC3339), b.pause, b.consecutive, b.lastCause)
}
