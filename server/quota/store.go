package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/throttled/throttled/v2"
)

// stores are where buckets are.
type stores struct {
	local  *memory
	shared throttled.GCRAStoreCtx // nil without Redis
	log    *slog.Logger

	mu    sync.Mutex
	until time.Time // Redis is not asked before
	told  time.Time // of the last warning
}

// When Redis did not answer, it is asked again after away; the log says so at most once in warnEvery.
const (
	away      = 5 * time.Second
	warnEvery = time.Minute
)

// answers reports whether Redis is to be asked.
func (s *stores) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.until)
}

// lost notes that Redis did not answer.
func (s *stores) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.until = now.Add(away); now.Sub(s.told) < warnEvery {
		return
	}
	s.told = now
	s.log.Warn("nobody answers at quota.redis_url: this replica keeps to the limits of keys by itself", "error", err)
}

// memory implements throttled.GCRAStoreCtx. It has an entry for each bucket, so their number is bounded by the
// settings. Its clock is monotonic: what happens to the machine's does not matter.
type memory struct {
	now   func() time.Time
	mu    sync.Mutex
	times map[string]int64
}

func newMemory() *memory {
	began := time.Now()
	return &memory{now: func() time.Time { return began.Add(time.Since(began)) }, times: map[string]int64{}}
}

// GetWithTime implements throttled.GCRAStoreCtx.
func (m *memory) GetWithTime(_ context.Context, key string) (int64, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.times[key]
	if !ok {
		at = -1
	}
	return at, m.now(), nil
}

// SetIfNotExistsWithTTL implements throttled.GCRAStoreCtx.
func (m *memory) SetIfNotExistsWithTTL(_ context.Context, key string, value int64, _ time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.times[key]; ok {
		return false, nil
	}
	m.times[key] = value
	return true, nil
}

// CompareAndSwapWithTTL implements throttled.GCRAStoreCtx.
func (m *memory) CompareAndSwapWithTTL(_ context.Context, key string, before, value int64, _ time.Duration) (bool,
	error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.times[key] != before {
		return false, nil
	}
	m.times[key] = value
	return true, nil
}
