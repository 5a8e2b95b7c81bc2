package kv

// lruList is a doubly linked list of block numbers that allocates only once. The last
// index is the sentinel of the ring.
type lruList struct {
	next, prev []int32
	len        int
}

func newLRU(blocks int) lruList {
	l := lruList{next: make([]int32, blocks+1), prev: make([]int32, blocks+1)}
	for i := range l.next {
		l.next[i], l.prev[i] = -1, -1
	}
	a := l.anchor()
	l.next[a], l.prev[a] = a, a
	return l
}

func (l *lruList) anchor() int32 { return int32(len(l.next) - 1) }

// oldest returns the least recently pushed block; the list must not be empty.
func (l *lruList) oldest() int32 { return l.next[l.anchor()] }

// has reports whether b is in the list.
func (l *lruList) has(b int32) bool { return l.next[b] >= 0 }

// push adds b as the newest.
func (l *lruList) push(b int32) { l.insert(b, l.anchor()) }

// insert adds b as the next older one to another.
func (l *lruList) insert(b, younger int32) {
	older := l.prev[younger]
	l.next[older], l.prev[b], l.next[b], l.prev[younger] = b, older, younger, b
	l.len++
}

func (l *lruList) remove(b int32) {
	l.next[l.prev[b]], l.prev[l.next[b]] = l.next[b], l.prev[b]
	l.next[b], l.prev[b] = -1, -1
	l.len--
}
