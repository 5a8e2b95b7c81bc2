package kvevents

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"tgi/runtime/llm"
)

// block is one that can be found in a model's cache.
type block struct {
	hash, parent uint64
	first        bool // no block is before it
	tokens       []llm.Token
	order        uint64 // a block's parent was stored before it
}

// change is that a block was stored, or, without one, that the one of this hash was removed.
type change struct {
	hash   uint64
	stored *block
}

// maxChanges bounds the changes that wait to be sent. If there are more, the difference between what was sent and what
// there is takes their place.
const maxChanges = 8192

// Stream is what is sent of one model's cache. Stored and Removed are called by the token loop: they wait for nothing
// but each other and the moment in which the sender takes what they left.
type Stream struct {
	publisher *Publisher
	feed      *feed

	mu      sync.Mutex
	present map[uint64]*block
	changes []change
	behind  bool // changes were too many, and are not complete
	order   uint64
	closed  bool
	over    chan struct{} // closed when the removal of all blocks was sent
}

// Stored says that a block can be found now. Parent is the hash of the one before it, unless it is the first.
func (s *Stream) Stored(hash, parent uint64, first bool, tokens []llm.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order++
	b := &block{hash, parent, first, slices.Clone(tokens), s.order}
	s.present[hash] = b
	s.add(change{hash, b})
}

// Removed says that a block cannot be found any more.
func (s *Stream) Removed(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.present, hash)
	s.add(change{hash, nil})
}

func (s *Stream) add(c change) {
	if s.behind {
		return
	}
	if len(s.changes) == maxChanges {
		s.changes, s.behind = nil, true
		return
	}
	s.changes = append(s.changes, c)
	s.publisher.signal()
}

// Close says that nothing is cached any more, as the model is unloaded, and waits until that was sent.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.publisher.signal()
	select {
	case <-s.over:
	case <-s.publisher.stopped:
	}
}

// take returns what was not sent yet, given what was. The token loop waits for it no longer than a copy of the blocks
// takes: they are compared when it goes on.
func (s *Stream) take(sent map[uint64]*block) (changes []change, closed bool) {
	s.mu.Lock()
	if s.closed {
		clear(s.present)
	} else if !s.behind {
		defer s.mu.Unlock()
		changes, s.changes = s.changes, nil
		return changes, false
	}
	present, closed := maps.Clone(s.present), s.closed
	s.changes, s.behind = nil, false
	s.mu.Unlock()
	return difference(sent, present), closed
}

// difference returns what changes the blocks of one map to those of another.
func difference(from, to map[uint64]*block) (changes []change) {
	for hash := range from {
		if to[hash] == nil {
			changes = append(changes, change{hash, nil})
		}
	}
	for _, b := range ordered(to) {
		if from[b.hash] == nil {
			changes = append(changes, change{b.hash, b})
		}
	}
	return changes
}

// ordered returns blocks as they were stored.
func ordered(m map[uint64]*block) []*block {
	out := make([]*block, 0, len(m))
	for _, b := range m {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *block) int { return cmp.Compare(a.order, b.order) })
	return out
}
