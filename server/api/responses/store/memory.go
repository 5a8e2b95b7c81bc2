package store

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// entryCost is about what a record of Memory takes besides its bytes.
const entryCost = 512

// Memory keeps records in this process.
type Memory struct {
	limits Limits

	mu     sync.Mutex
	owners map[Owner]*owned
	count  int
	bytes  int64
	lost   uint64 // for want of room
	// The latest records that were deleted: a ring, and where it goes on.
	deleted map[named]bool
	ring    [deletedMost]named
	next    int
}

// deletedMost bounds how many deleted records a Memory remembers. All who put records are in this process and delete
// through it, so that those of a moment do.
const deletedMost = 1024

// named is the name of a record.
type named struct {
	owner Owner
	id    string
}

// owned are the records of one owner.
type owned struct {
	byID  map[string]*list.Element // of *entry
	order *list.List               // the oldest first
	bytes int64
}

type entry struct {
	id     string
	record []byte
	until  time.Time
}

func (e *entry) cost() int64 { return int64(len(e.record)) + entryCost }

// NewMemory returns an empty store.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l, owners: map[Owner]*owned{}, deleted: map[named]bool{}}
}

// Close implements Store.
func (m *Memory) Close() error { return nil }

// Put implements Store.
func (m *Memory) Put(_ context.Context, o Owner, id string, record []byte) error {
	return m.put(o, id, record, func() error { return nil })
}

// Replace implements Store.
func (m *Memory) Replace(_ context.Context, o Owner, id string, old, record []byte) error {
	return m.put(o, id, record, func() error {
		at := m.find(o, id)
		switch {
		case at == nil:
			return ErrNotFound
		case !bytes.Equal(at.Value.(*entry).record, old):
			return ErrChanged
		}
		return nil
	})
}

// put is Put where may, which is called with the lock held, allows it.
func (m *Memory) put(o Owner, id string, record []byte, may func() error) error {
	e := &entry{id: id, record: slices.Clone(record), until: time.Now().Add(m.limits.TTL)}
	most := min(int64(m.limits.MaxRecord), m.limits.MaxOwnerBytes-entryCost, m.limits.MaxBytes-entryCost)
	if int64(len(record)) > most {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(record), most)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deleted[named{o, id}] {
		return ErrDeleted
	}
	if err := may(); err != nil {
		return err
	}
	of := m.owners[o]
	if of == nil {
		of = &owned{byID: map[string]*list.Element{}, order: list.New()}
		m.owners[o] = of
	}
	if at, ok := of.byID[id]; ok {
		m.remove(o, at)
	}
	m.owners[o] = of // it may have been emptied
	of.byID[id] = of.order.PushBack(e)
	of.bytes += e.cost()
	m.bytes += e.cost()
	m.count++
	for len(of.byID) > m.limits.MaxOwnerRecords || of.bytes > m.limits.MaxOwnerBytes {
		m.lost++
		m.remove(o, of.order.Front())
	}
	for m.count > m.limits.MaxRecords || m.bytes > m.limits.MaxBytes {
		m.evict()
	}
	return nil
}

// evict forgets what has expired, or else the oldest record of whoever has most: one client's many records do not push
// out another's few.
func (m *Memory) evict() {
	now := time.Now()
	var most Owner
	var bytes int64
	for o, of := range m.owners {
		if first := of.order.Front(); now.After(first.Value.(*entry).until) {
			m.remove(o, first)
			return
		}
		if of.bytes > bytes {
			most, bytes = o, of.bytes
		}
	}
	m.lost++
	m.remove(most, m.owners[most].order.Front())
}

// remove forgets a record of o.
func (m *Memory) remove(o Owner, at *list.Element) {
	of := m.owners[o]
	e := of.order.Remove(at).(*entry)
	delete(of.byID, e.id)
	of.bytes -= e.cost()
	m.bytes -= e.cost()
	if m.count--; len(of.byID) == 0 {
		delete(m.owners, o)
	}
}

// find returns a record of o that has not expired; nil for none.
func (m *Memory) find(o Owner, id string) *list.Element {
	of := m.owners[o]
	if of == nil || of.byID[id] == nil {
		return nil
	}
	at := of.byID[id]
	if time.Now().After(at.Value.(*entry).until) {
		m.remove(o, at)
		return nil
	}
	return at
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, o Owner, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.find(o, id)
	if at == nil {
		return nil, ErrNotFound
	}
	return at.Value.(*entry).record, nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, o Owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.find(o, id)
	if at == nil {
		return ErrNotFound
	}
	m.remove(o, at)
	delete(m.deleted, m.ring[m.next])
	m.ring[m.next] = named{o, id}
	m.deleted[named{o, id}] = true
	m.next = (m.next + 1) % deletedMost
	return nil
}

// Stats are the records that a Memory keeps, what they take of Limit in bytes, and how many were forgotten for want of
// room.
type Stats struct {
	Records      int
	Bytes, Limit int64
	Evicted      uint64
}

// Stats reads them.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{m.count, m.bytes, m.limits.MaxBytes, m.lost}
}
