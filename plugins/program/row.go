package program

import (
	"math"

	"tgi/plugins/logits"
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
	ids := logits.Likeliest(row, k)
	list := make([]likely, len(ids))
	for i, id := range ids {
		list[i] = likely{id: id, logit: row[id], logprob: float32(float64(row[id]) - all)}
	}
	return list
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
