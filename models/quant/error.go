package quant

import "math"

// WeightError gathers how far quantised weights are from the original ones.
// The zero value is ready; it belongs to one goroutine.
type WeightError struct {
	noise, signal float64
	worst         float64
	n             int64
}

// Add compares weights with what their codes stand for.
func (e *WeightError) Add(want, got []float32) {
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		e.noise += d * d
		e.signal += float64(w) * float64(w)
		e.worst = max(e.worst, math.Abs(d))
	}
	e.n += int64(len(want))
}

// Merge adds what another has gathered.
func (e *WeightError) Merge(o WeightError) {
	e.noise += o.noise
	e.signal += o.signal
	e.worst = max(e.worst, o.worst)
	e.n += o.n
}

// Relative returns the root mean square of the error over that of the weights.
func (e *WeightError) Relative() float64 {
	if e.signal == 0 {
		return 0
	}
	return math.Sqrt(e.noise / e.signal)
}

// Worst returns the largest absolute error.
func (e *WeightError) Worst() float64 { return e.worst }

// Count returns the weights compared.
func (e *WeightError) Count() int64 { return e.n }
