package logits

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"tgi/sdk/abi"
)

// A key sorts tokens in the order of a view: ascending keys are falling logits, ties by rising id.
func keyOf(v float32, id int) uint64 {
	b := math.Float32bits(v + 0) // both zeros tie
	if b>>31 == 0 {
		b = ^b & 0x7fffffff
	}
	return uint64(b)<<32 | uint64(uint32(id))
}

// topSelector holds the buffers of one selection.
type topSelector struct{ keys, spare []uint64 }

var topSelectors = sync.Pool{New: func() any { return new(topSelector) }}

// writeView writes the n most likely tokens of x, which has at least n. NaN counts as -Inf.
func writeView(to []byte, x []float32, n int) {
	t := topSelectors.Get().(*topSelector)
	for i, key := range t.top(x, n) {
		id := uint32(key)
		v := x[id]
		if v != v {
			v = negInf
		}
		binary.LittleEndian.PutUint32(to[abi.ViewEntrySize*i:], id)
		binary.LittleEndian.PutUint32(to[abi.ViewEntrySize*i+4:], math.Float32bits(v))
	}
	topSelectors.Put(t)
}

// Likeliest returns the n likeliest tokens of a row of logits, equals by rising id, without those that cannot come.
func Likeliest(row []float32, n int) []uint32 {
	t := topSelectors.Get().(*topSelector)
	defer topSelectors.Put(t)
	var ids []uint32
	for _, k := range t.top(row, min(n, len(row))) {
		if id := uint32(k); row[id] > negInf {
			ids = append(ids, id)
		}
	}
	return ids
}

// top returns the keys of the n most likely tokens, sorted.
func (t *topSelector) top(x []float32, n int) []uint64 {
	threshold := t.sampleThreshold(x, n)
	t.gather(x, n, threshold)
	if len(t.keys) < n && threshold > negInf {
		t.gather(x, n, negInf)
	}
	t.sort()
	for id := 0; len(t.keys) < n; id++ {
		if !(x[id] > negInf) {
			t.keys = append(t.keys, keyOf(negInf, id))
		}
	}
	return t.keys
}

// gather collects the keys of the n most likely tokens above the threshold, by rising id. One pass over the row
// collects tokens above the threshold; when there are several times n, the n-th best becomes the new threshold. In a
// tie the earlier token is better, so a later one equal to the threshold never counts.
func (t *topSelector) gather(x []float32, n int, threshold float32) {
	room := 4*n + 256
	t.keys = slices.Grow(t.keys[:0], room+blockLen)
	for start := 0; start < len(x); start += blockLen {
		start += skipBelow(x[start:], threshold)
		for i, v := range x[start:min(start+blockLen, len(x))] {
			if v > threshold { // false for NaN
				t.keys = append(t.keys, keyOf(v, start+i))
			}
		}
		if len(t.keys) >= room {
			threshold = x[uint32(t.keepLeast(n))]
		}
	}
	if len(t.keys) > n {
		t.keepLeast(n)
	}
}

// For a long view of a long row, sampling an estimate of the threshold pays.
const (
	sampleFrom = 256  // entries of a view
	samples    = 4096 // looked at
)

// sampleThreshold estimates a threshold above which there are most likely a few more than n tokens; -Inf: no estimate.
func (t *topSelector) sampleThreshold(x []float32, n int) float32 {
	stride := len(x) / samples
	above := n * samples / max(len(x), 1)
	above += 4*int(math.Sqrt(float64(above))) + 8
	if n < sampleFrom || stride < 8 || above >= samples {
		return negInf
	}
	t.spare = t.spare[:0]
	for i := range samples {
		v := x[i*stride]
		if v != v {
			v = negInf
		}
		t.spare = append(t.spare, keyOf(v, i))
	}
	v := x[int(uint32(nth(t.spare, above)))*stride]
	if v != v {
		return negInf
	}
	return v
}

// blockLen is how many logits are compared one by one when one of them may be above the threshold.
const blockLen = 32

// skipBelow returns the number of leading logits, a multiple of blockLen, that are not above the threshold.
func skipBelow(x []float32, threshold float32) int {
	n := vectorSkip(x, threshold)
	for x = x[n:]; len(x) >= blockLen; x, n = x[blockLen:], n+blockLen {
		for b := x[:blockLen]; len(b) >= 8; b = b[8:] {
			if b[0] > threshold || b[1] > threshold || b[2] > threshold || b[3] > threshold || b[4] > threshold ||
				b[5] > threshold || b[6] > threshold || b[7] > threshold {
				return n
			}
		}
	}
	return n
}

// keepLeast keeps the n smallest keys in their order, and returns the largest of them.
func (t *topSelector) keepLeast(n int) uint64 {
	t.spare = append(t.spare[:0], t.keys...)
	last := nth(t.spare, n-1)
	kept := t.keys[:0]
	for _, k := range t.keys {
		if k <= last {
			kept = append(kept, k)
		}
	}
	t.keys = kept
	return last
}

// nth returns the key that would be at index n if the keys, which are distinct, were sorted; it reorders them. (Hoare,
// "Algorithm 65: Find", 1961; the pivot is the median of three.)
func nth(keys []uint64, n int) uint64 {
	for len(keys) > 1 {
		a, b, c := keys[0], keys[len(keys)/2], keys[len(keys)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := 0, len(keys)-1
		for i <= j {
			for keys[i] < pivot {
				i++
			}
			for keys[j] > pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			keys = keys[:j+1]
		case n >= i:
			keys, n = keys[i:], n-i
		default:
			return keys[n]
		}
	}
	return keys[0]
}

// digits of the sort by distribution: three passes over the upper half of a key.
const (
	digitBits  = 11
	sortByHand = 256 // keys from which distribution is faster than comparing
)

// sort orders the keys, which are by rising id: a stable sort by logit is enough.
func (t *topSelector) sort() {
	if len(t.keys) < sortByHand {
		slices.Sort(t.keys)
		return
	}
	t.spare = slices.Grow(t.spare[:0], len(t.keys))[:len(t.keys)]
	for shift := 32; shift < 64; shift += digitBits {
		var at [1 << digitBits]uint32
		for _, k := range t.keys {
			at[k>>shift&(1<<digitBits-1)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i], sum = sum, sum+n
		}
		for _, k := range t.keys {
			digit := k >> shift & (1<<digitBits - 1)
			t.spare[at[digit]] = k
			at[digit]++
		}
		t.keys, t.spare = t.spare, t.keys
	}
}
