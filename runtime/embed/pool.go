package embed

import "math"

// Pooling is a way to make one vector of those of a text's tokens.
type Pooling string

// The ways, as sentence-transformers names them.
const (
	First        Pooling = "cls"
	Max          Pooling = "max"
	Mean         Pooling = "mean"
	MeanSqrt     Pooling = "mean_sqrt_len_tokens"
	WeightedMean Pooling = "weightedmean"
	Last         Pooling = "lasttoken"
)

// row returns the index of the one token that the way needs of n, of which the first skip do not count; ok is false if
// it needs all.
func (p Pooling) row(n, skip int) (row int, ok bool) {
	switch p {
	case First:
		return min(skip, n-1), true
	case Last:
		return n - 1, true
	}
	return 0, false
}

// pool writes to out, which is zero, what a way makes of the vectors of a text's tokens, [n*width]; the first skip do
// not count. Sums are those of 64-bit floats in the order of the tokens, so that they depend on the text alone.
func (p Pooling) pool(out, rows []float32, width, skip int) {
	n := len(rows) / width
	skip = min(skip, n-1)
	if row, ok := p.row(n, skip); ok {
		copy(out, rows[row*width:(row+1)*width])
		return
	}
	if p == Max {
		copy(out, rows[skip*width:(skip+1)*width])
		for i := skip + 1; i < n; i++ {
			for d, x := range rows[i*width : (i+1)*width] {
				out[d] = max(out[d], x)
			}
		}
		return
	}
	sum, total := make([]float64, width), 0.0
	for i := skip; i < n; i++ {
		weight := 1.0
		if p == WeightedMean {
			weight = float64(i + 1)
		}
		total += weight
		for d, x := range rows[i*width : (i+1)*width] {
			sum[d] += weight * float64(x)
		}
	}
	if p == MeanSqrt {
		total = math.Sqrt(total)
	}
	for d := range out {
		out[d] = float32(sum[d] / total)
	}
}

// Normalize gives x the length 1, unless it is 0.
func Normalize(x []float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	length := max(math.Sqrt(sum), 1e-12)
	for i, v := range x {
		x[i] = float32(float64(v) / length)
	}
}
