package store

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits bound a store.
type Limits struct {
	// TTL is how long a state is kept after it was saved.
	TTL time.Duration
	// MaxState bounds one state in bytes.
	MaxState int
	// MaxEntries and MaxMemory bound the states of a Memory together: their
	// number and their bytes, with entryCost for each.
	MaxEntries int
	MaxMemory  int64
}

// entryCost is about what an entry of Memory takes besides its state, in bytes.
const entryCost = 256

// Memory keeps states in this process. When there is no more room it forgets
// those that were not used for the longest time.
type Memory struct {
	limits Limits

	mu      sync.Mutex
	entries map[Key]*list.Element // of *entry
	order   *list.List            // the latest used first
	bytes   int64
	evicted uint64
	claimed map[Key]struct{}
}

type entry struct {
	key   Key
	state []byte
	until time.Time
}

func (e *entry) cost() int64 { return int64(len(e.state)) + entryCost }

// NewMemory returns an empty store.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l, entries: map[Key]*list.Element{}, order: list.New(), claimed: map[Key]struct{}{}}
}

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, key Key) (Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.claimed[key]; taken {
		return nil, ErrBusy
	}
	m.claimed[key] = struct{}{}
	c := &memoryClaim{store: m, key: key}
	if at, ok := m.entries[key]; ok {
		if e := at.Value.(*entry); time.Now().Before(e.until) {
			c.state = e.state
			m.order.MoveToFront(at)
		} else {
			m.remove(at)
		}
	}
	return c, nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }

// Stats are the states that a Memory keeps, what they take of Limit in bytes, and how many
// were forgotten for want of room.
type Stats struct {
	Entries      int
	Bytes, Limit int64
	Evicted      uint64
}

// Stats reads them.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{len(m.entries), m.bytes, m.limits.MaxMemory, m.evicted}
}

func (m *Memory) remove(at *list.Element) {
	e := m.order.Remove(at).(*entry)
	delete(m.entries, e.key)
	m.bytes -= e.cost()
}

// put keeps a state and makes room for it.
func (m *Memory) put(key Key, state []byte) error {
	e := &entry{key: key, state: append([]byte(nil), state...), until: time.Now().Add(m.limits.TTL)}
	if len(state) > m.limits.MaxState || e.cost() > m.limits.MaxMemory {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(state),
			min(int64(m.limits.MaxState), m.limits.MaxMemory-entryCost))
	}
	if at, ok := m.entries[key]; ok {
		m.remove(at)
	}
	m.entries[key] = m.order.PushFront(e)
	m.bytes += e.cost()
	now := time.Now()
	for last := m.order.Back(); last != nil; last = m.order.Back() {
		fits := len(m.entries) <= m.limits.MaxEntries && m.bytes <= m.limits.MaxMemory
		if fits && now.Before(last.Value.(*entry).until) {
			break
		}
		if !fits {
			m.evicted++
		}
		m.remove(last)
	}
	return nil
}

// memoryClaim implements Claim.
type memoryClaim struct {
	store *Memory
	key   Key
	state []byte
}

func (c *memoryClaim) State() []byte { return c.state }

func (c *memoryClaim) Save(_ context.Context, state []byte) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	delete(c.store.claimed, c.key)
	return c.store.put(c.key, state)
}

func (c *memoryClaim) Drop(context.Context) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	delete(c.store.claimed, c.key)
	if at, ok := c.store.entries[c.key]; ok {
		c.store.remove(at)
	}
	return nil
}

func (c *memoryClaim) Release() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	delete(c.store.claimed, c.key)
}
