package plugins

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// breakers switch one version of a plugin off after too many faulty sequences in a row: for one client after that many of its
// own, and for all after that many of at least sharedClients clients, none of which counts for more than its share of them. So
// one client's parameters and prompts can't take a plugin away from others, while a plugin that fails for everybody is left
// alone. They are asked when a request is bound and told how sequences end, never per token.
type breakers struct {
	all breaker

	mu  sync.Mutex
	own map[string]*breaker // of the clients that had a faulty sequence since their last good one
}

const (
	// sharedClients is how many clients must see a plugin fail before it is switched off for all.
	sharedClients = 3
	// maxBreakers bounds how many clients are told apart; beyond, the one whose last fault is oldest is forgotten.
	maxBreakers = 1024
)

// trial is what a request holds that tries a plugin which was off, for all or for its client.
type trial struct{ all, own uint64 }

// of gives the breaker of a client, nil when there is none. Without a client there never is.
func (b *breakers) of(client string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own[client]
}

// admit lets a request of a client through; see [breaker.admit].
func (b *breakers) admit(now time.Time, client string) (t trial, refused string) {
	if t.all, refused = b.all.admit(now); refused != "" {
		return trial{}, refused
	}
	if own := b.of(client); own != nil {
		if t.own, refused = own.admit(now); refused != "" {
			b.all.abandon(t.all)
			return trial{}, refused
		}
	}
	return t, ""
}

// fault counts a faulty sequence of a request that admit let through. It gives why the plugin was switched off by it, "" when
// it was not.
func (b *breakers) fault(now time.Time, client, cause string, t trial) (off string) {
	if client != "" {
		off = b.enter(now, client).fault(now, cause, client, t.own)
	}
	return cmp.Or(b.all.fault(now, cause, client, t.all), off)
}

// enter gives the breaker of a client, a new one where there is none.
func (b *breakers) enter(now time.Time, client string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[client]
	if own == nil {
		if len(b.own) >= maxBreakers {
			delete(b.own, b.oldest())
		}
		if b.own == nil {
			b.own = map[string]*breaker{}
		}
		own = &breaker{limit: b.all.limit, pause: b.all.pause, single: true}
		b.own[client] = own
	}
	own.latest = now
	return own
}

// oldest gives the client whose last fault is oldest. The lock is held.
func (b *breakers) oldest() (client string) {
	for c, own := range b.own {
		if client == "" || own.latest.Before(b.own[client].latest) {
			client = c
		}
	}
	return client
}

// good counts a sequence that ended without a fault and reports whether it switched the plugin on again.
func (b *breakers) good(client string, t trial) (on bool) {
	on = b.all.good(t.all)
	own := b.of(client)
	if own == nil {
		return on
	}
	on = own.good(t.own) || on
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.idle() {
		delete(b.own, client)
	}
	return on
}

// abandon gives back a trial that showed nothing, since the request ended before its plugin was asked.
func (b *breakers) abandon(client string, t trial) {
	b.all.abandon(t.all)
	if own := b.of(client); own != nil {
		own.abandon(t.own)
	}
}

// clients counts those for which the plugin is off, and gives the last fault of one of them.
func (b *breakers) clients(now time.Time) (n int, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, own := range b.own {
		if own.state(now) != "" {
			n, last = n+1, own.cause()
		}
	}
	return n, last
}

// breaker is what breakers have for all clients, and for each.
type breaker struct {
	limit  int // 0: never
	pause  time.Duration
	single bool      // it is one client's
	latest time.Time // fault, by the lock of breakers

	mu           sync.Mutex
	row          int            // faulty sequences since the last good one, as far as they count
	clients      map[string]int // how many of them each client has; nil where nobody is told apart
	off          bool
	since, until time.Time
	last         string // the fault that switched it off
	trial        uint64 // number of the request that tries it now, 0 when none does
	trials       uint64 // given out so far
}

// admit lets a request through. trial is not 0 when that request is the one that tries a plugin that was off; it must
// come back with good, fault or abandon. The text says why a request is not let through.
func (b *breaker) admit(now time.Time) (trial uint64, refused string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.off {
		return 0, ""
	}
	if b.trial != 0 || now.Before(b.until) {
		return 0, b.why()
	}
	b.trials++
	b.trial = b.trials
	return b.trial, ""
}

// fault counts a faulty sequence of a request that admit let through. It gives why the plugin was switched off by it, "" when it
// was not.
func (b *breaker) fault(now time.Time, cause, client string, trial uint64) (off string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	enough := b.count(client)
	switch {
	case b.limit == 0, b.off && (trial == 0 || trial != b.trial), !b.off && !enough:
		return "" // one that began before it was switched off changes nothing
	}
	b.off, b.trial = true, 0
	b.since, b.until, b.last = now, now.Add(b.pause), cause
	return b.why()
}

// count counts a fault of a client and reports whether there are enough. The lock is held.
func (b *breaker) count(client string) (enough bool) {
	if b.single || client == "" {
		b.row++
		return b.row >= b.limit
	}
	if b.clients == nil {
		b.clients = map[string]int{}
	}
	if n := b.clients[client]; n < max(1, b.limit/sharedClients) && len(b.clients) <= b.limit+sharedClients {
		b.clients[client] = n + 1
		b.row++
	}
	return b.row >= b.limit && len(b.clients) >= sharedClients
}

// cause gives the fault that switched the plugin off.
func (b *breaker) cause() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// idle reports whether there is nothing to remember.
func (b *breaker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.off && b.row == 0
}

// good counts a sequence that ended without a fault and reports whether it switched the plugin on again.
func (b *breaker) good(trial uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off && (trial == 0 || trial != b.trial) {
		return false
	}
	on := b.off
	b.off, b.trial, b.row, b.last, b.clients = false, 0, 0, "", nil
	return on
}

// abandon gives back a trial that showed nothing, since the request ended before its plugin was asked.
func (b *breaker) abandon(trial uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial != 0 && trial == b.trial {
		b.trial = 0
	}
}

// state gives why the plugin is off, "" when it is on: also when its pause is over, since the next request tries it.
func (b *breaker) state(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.off || b.trial == 0 && !now.Before(b.until) {
		return ""
	}
	return b.why()
}

// why is read with the lock held.
func (b *breaker) why() string {
	whom := ""
	if b.single {
		whom = " for this client"
	}
	return fmt.Sprintf("switched off%s at %s for %v after %d faulty sequences in a row, the last: %s", whom, b.since.UTC().Format(time.RFC3339), b.pause, b.row, b.last)
}
