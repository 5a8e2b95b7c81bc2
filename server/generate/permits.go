package generate

import (
	"math"
	"sync"
	"time"
)

// Bounds of what Overloaded.RetryAfter promises.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// permits count the sequences that may be waiting or running. No request waits for
// one: a request gets all it needs at once or none.
type permits struct {
	mu          sync.Mutex
	free, total int
	// pace is a moving average of the time between two returns of permits;
	// last is when the latest return was, or when all were free for the last time.
	pace time.Duration
	last time.Time
}

func newPermits(n int) *permits { return &permits{free: n, total: n} }

// take takes n permits and says whether there were as many.
func (p *permits) take(n int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < n {
		return false
	}
	if p.free == p.total {
		p.last = now
	}
	p.free -= n
	return true
}

// wait estimates how long it takes until n permits have come back, in whole
// seconds. A pace that slowed since the last return shows in the time that
// passed without one.
func (p *permits) wait(n int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := p.pace
	if p.free < p.total {
		pace = max(pace, now.Sub(p.last))
	}
	secs := math.Ceil((pace * time.Duration(n)).Seconds())
	return min(max(time.Duration(secs)*time.Second, minRetry), maxRetry)
}

// give returns n permits.
func (p *permits) give(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	p.pace += (now.Sub(p.last)/time.Duration(n) - p.pace) / 8
	p.last = now
}
