package quant

import "math"

// WeightError accumulates the error of quantised weights. The zero value is ready to use; it is
// not safe for concurrent use.
type WeightError struct {
	noise, signal float64
	worst         float64
	n             int64
}

// add compares weights with their quantised values, multiples of a scale.
func (e *WeightError) add(weights []float32, codes []int32, scale float32) {
	e.addOffset(weights, codes, scale, 0)
}

// addOffset is add for values to which an offset is added.
func (e *WeightError) addOffset(weights []float32, codes []int32, scale, offset float32) {
	var noise, signal, worst float32 // of one block: short enough for 32 bits
	for i, w := range weights {
		d := float32(float32(codes[i])*scale) + offset - w
		noise += d * d
		signal += w * w
		if m := float32(math.Abs(float64(d))); m > worst {
			worst = m
		}
	}
	e.noise += float64(noise)
	e.signal += float64(signal)
	e.worst = max(e.worst, float64(worst))
	e.n += int64(len(weights))
}

// Merge adds the errors of another WeightError.
func (e *WeightError) Merge(o WeightError) {
	e.noise += o.noise
	e.signal += o.signal
	e.worst = max(e.worst, o.worst)
	e.n += o.n
}

// Relative returns the root mean square of the error divided by that of the weights.
func (e *WeightError) Relative() float64 {
	if e.signal == 0 {
		return 0
	}
	return math.Sqrt(e.noise / e.signal)
}

// Count returns the number of weights compared.
func (e *WeightError) Count() int64 { return e.n }
