package grammar

import "sync/atomic"

// table holds the known transitions of a term or a set. A few, each for a class of bytes, are in a list that is
// replaced as a whole; more are in an array by byte. Readers take no lock; writers hold the machine's.
type table[T any] struct {
	few   []edge[T]
	dense *[256]atomic.Pointer[T]
}

type edge[T any] struct {
	on byteSet
	to *T
}

// maxEdges is the maximum length of the list.
const maxEdges = 4

// Approximate sizes in bytes for accounting.
const (
	edgeBytes  = 48
	denseBytes = 256*8 + 48
)

// get returns the target of b, nil if unknown.
func (t *table[T]) get(b byte) *T {
	if t.dense != nil {
		return t.dense[b].Load()
	}
	for i := range t.few {
		if t.few[i].on.has(b) {
			return t.few[i].to
		}
	}
	return nil
}

// with returns a table that also leads from on to to, and its additional size in bytes.
func (t *table[T]) with(on byteSet, to *T) (*table[T], int) {
	switch {
	case t == nil:
		return &table[T]{few: []edge[T]{{on, to}}}, 32 + edgeBytes
	case t.dense != nil:
		t.fill(on, to)
		return t, 0
	case len(t.few) < maxEdges:
		few := make([]edge[T], len(t.few), len(t.few)+1)
		copy(few, t.few)
		return &table[T]{few: append(few, edge[T]{on, to})}, edgeBytes
	}
	d := &table[T]{dense: new([256]atomic.Pointer[T])}
	for _, e := range t.few {
		d.fill(e.on, e.to)
	}
	d.fill(on, to)
	return d, denseBytes - maxEdges*edgeBytes
}

func (t *table[T]) fill(on byteSet, to *T) {
	for !on.empty() {
		b := on.lowest()
		t.dense[b].Store(to)
		on[b>>6] &^= 1 << (b & 63)
	}
}
