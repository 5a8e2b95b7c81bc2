package program

import (
	"math"
	"slices"
)

// likely is a token that may come next.
type likely struct {
	id             uint32
	logit, logprob float32
}

// likeliest returns the k likeliest tokens of a row of raw logits, equals by ascending id, without those that cannot
// come.
func likeliest(row []float32, k int) []likely {
	top, sum := mass(row)
	all := top + math.Log(sum)
	// What sorts like the logit, the greatest first, and then like the id.
	var keys []uint64
	worst := uint64(math.MaxUint64)
	for id, x := range row {
		if !(x > float32(math.Inf(-1))) {
			continue
		}
		if key := uint64(descending(x))<<32 | uint64(id); key < worst {
			keys = append(keys, key)
		}
		if len(keys) >= 2*k {
			smallest(keys, k)
			keys = keys[:k]
			worst = slices.Max(keys)
		}
	}
	smallest(keys, k)
	keys = keys[:min(k, len(keys))]
	slices.Sort(keys)
	list := make([]likely, len(keys))
	for i, key := range keys {
		id := uint32(key)
		list[i] = likely{id: id, logit: row[id], logprob: float32(float64(row[id]) - all)}
	}
	return list
}

// descending returns bits that are smaller the greater x is; zeros of both signs have the same.
func descending(x float32) uint32 {
	b := math.Float32bits(x + 0)
	if b>>31 == 0 {
		return ^(b | 1<<31)
	}
	return b
}

// smallest moves the k smallest of a list to its front, in any order (Hoare's quickselect, 1961).
func smallest(list []uint64, k int) {
	for low, high := 0, len(list)-1; low < high && k <= high; {
		a, b, c := list[low], list[low+(high-low)/2], list[high]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := low, high
		for i <= j {
			for list[i] < pivot {
				i++
			}
			for list[j] > pivot {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k-1 <= j:
			high = j
		case k-1 >= i:
			low = i
		default:
			return
		}
	}
}

// mass returns the greatest of a row and the sum of e^(x-greatest); NaN counts as minus infinity.
func mass(row []float32) (top, sum float64) {
	top = math.Inf(-1)
	for _, x := range row {
		if v := float64(x); v > top {
			top = v
		}
	}
	for _, x := range row {
		if v := float64(x); v == v {
			sum += math.Exp(v - top)
		}
	}
	return top, sum
}

// entropy returns that of a row of raw logits, in nats.
func entropy(row []float32) float64 {
	top, sum := mass(row)
	mean := 0.0
	for _, x := range row {
		if v := float64(x) - top; v > math.Inf(-1) {
			mean += math.Exp(v) * v
		}
	}
	return max(math.Log(sum)-mean/sum, 0)
}
