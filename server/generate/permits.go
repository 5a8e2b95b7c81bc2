package generate

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Bounds of what Overloaded.RetryAfter promises.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// shareRatio is how many times as many permits as are free one client may hold. What is left is
// for the others: a client alone gets seven eighths, two that ask for all they can get end
// with seven fifteenths each (dynamic thresholds, Choudhury and Hahne 1998).
const shareRatio = 7

// permits count the sequences that may be waiting or running. No request waits for
// one: a request gets all it needs at once or none.
type permits struct {
	mu          sync.Mutex
	free, total int
	held        map[string]int // by clients that hold some
	// pace is a moving average of the time between two returns of permits;
	// last is when the latest return was, or when all were free for the last time.
	pace time.Duration
	last time.Time
}

func newPermits(n int) *permits { return &permits{free: n, total: n, held: map[string]int{}} }

// take takes n permits for client, or returns an *Overloaded. A client that has no name is held to no share.
func (p *permits) take(client string, n int, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < n {
		return &Overloaded{RetryAfter: p.wait(n, now)}
	}
	held := p.held[client]
	if client != "" && held+n > max(1, shareRatio*(p.free-n)) {
		return &Overloaded{RetryAfter: p.wait(n, now), Reason: fmt.Sprintf(
			"this client holds %d of %d places (limits.max_concurrent_requests), the other %d are kept for others",
			held, p.total, p.free)}
	}
	if p.free == p.total {
		p.last = now
	}
	p.free -= n
	p.held[client] = held + n
	return nil
}

// retryAfter estimates when a request that found all permits taken finds one.
func (p *permits) retryAfter(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(1, now)
}

// wait estimates how long it takes until n permits have come back, in whole
// seconds. A pace that slowed since the last return shows in the time that
// passed without one. The caller holds the lock.
func (p *permits) wait(n int, now time.Time) time.Duration {
	pace := p.pace
	if p.free < p.total {
		pace = max(pace, now.Sub(p.last))
	}
	secs := math.Ceil((pace * time.Duration(n)).Seconds())
	return min(max(time.Duration(secs)*time.Second, minRetry), maxRetry)
}

// give returns n permits of client.
func (p *permits) give(client string, n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	if p.held[client] -= n; p.held[client] == 0 {
		delete(p.held, client)
	}
	p.pace += (now.Sub(p.last)/time.Duration(n) - p.pace) / 8
	p.last = now
}
