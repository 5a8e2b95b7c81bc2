package kvevents

// medium is where blocks are: routers take it for the memory that the model computes with, whatever the device.
const medium = "GPU"

// appendBatch appends a batch: [time, events, rank].
func appendBatch(b []byte, time float64, changes []change, cleared bool) []byte {
	events := group(changes)
	n := len(events)
	if cleared {
		n++
	}
	b = appendArray(appendFloat(appendArray(b, 3), time), n)
	for _, e := range events {
		b = appendEvent(b, e)
	}
	if cleared {
		b = appendCleared(b)
	}
	return appendUint(b, 0)
}

// appendBatchAfter is a batch that says that nothing is cached but what changes say.
func appendBatchAfter(time float64, changes []change) []byte {
	events := group(changes)
	b := appendCleared(appendArray(appendFloat(appendArray(nil, 3), time), 1+len(events)))
	for _, e := range events {
		b = appendEvent(b, e)
	}
	return appendUint(b, 0)
}

func appendCleared(b []byte) []byte { return appendString(appendArray(b, 1), "AllBlocksCleared") }

// group divides changes into events: blocks of one size that follow on each other are stored by one, blocks that are
// removed one after the other are removed by one.
func group(changes []change) (events [][]change) {
	start := 0
	for i := range changes {
		if i+1 < len(changes) && joins(changes[i], changes[i+1]) {
			continue
		}
		events = append(events, changes[start:i+1])
		start = i + 1
	}
	return events
}

func joins(a, b change) bool {
	if a.stored == nil || b.stored == nil {
		return a.stored == nil && b.stored == nil
	}
	return !b.stored.first && b.stored.parent == a.hash && len(a.stored.tokens) == len(b.stored.tokens)
}

// appendEvent appends BlockStored: [tag, hashes, parent, tokens, block size, adapter, medium, name of the adapter], or
// BlockRemoved: [tag, hashes, medium].
func appendEvent(b []byte, e []change) []byte {
	first := e[0].stored
	if first == nil {
		b = appendHashes(appendString(appendArray(b, 3), "BlockRemoved"), e)
		return appendString(b, medium)
	}
	b = appendHashes(appendString(appendArray(b, 8), "BlockStored"), e)
	if first.first {
		b = appendNil(b)
	} else {
		b = appendHash(b, first.parent)
	}
	b = appendArray(b, len(e)*len(first.tokens))
	for _, c := range e {
		for _, t := range c.stored.tokens {
			b = appendUint(b, t)
		}
	}
	b = appendNil(appendUint(b, uint32(len(first.tokens))))
	return appendNil(appendString(b, medium))
}

func appendHashes(b []byte, e []change) []byte {
	b = appendArray(b, len(e))
	for _, c := range e {
		b = appendHash(b, c.hash)
	}
	return b
}
