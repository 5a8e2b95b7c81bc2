package plugins

import (
	"fmt"
	"sync"
	"time"
)

// breaker switches one version of a plugin off after too many faulty sequences in a row. It is asked when a request is
// bound and told how sequences end, never per token.
type breaker struct {
	limit int // 0: never
	pause time.Duration

	mu           sync.Mutex
	row          int // faulty sequences since the last good one
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

// fault counts a faulty sequence of a request that admit let through and reports whether it switched the plugin off.
func (b *breaker) fault(now time.Time, cause string, trial uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row++
	switch {
	case b.limit == 0, b.off && (trial == 0 || trial != b.trial), !b.off && b.row < b.limit:
		return false // one that began before it was switched off changes nothing
	}
	b.off, b.trial = true, 0
	b.since, b.until, b.last = now, now.Add(b.pause), cause
	return true
}

// good counts a sequence that ended without a fault and reports whether it switched the plugin on again.
func (b *breaker) good(trial uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off && (trial == 0 || trial != b.trial) {
		return false
	}
	on := b.off
	b.off, b.trial, b.row, b.last = false, 0, 0, ""
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
	return fmt.Sprintf("switched off at %s for %v after %d faulty sequences in a row, the last: %s", b.since.UTC().Format(time.RFC3339), b.pause, b.row, b.last)
}
