package synth

import (
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"sync"
)

// chunk is how many elements one generator draws. Chunks are seeded by their
// place, so the result does not depend on how many processors share the work.
const chunk = 1 << 18

// draw writes the tensor's elements as BF16.
func (t tensor) draw(w io.Writer, seed, index uint64) error {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	workers := runtime.GOMAXPROCS(0)
	buffers := make([][]byte, workers)
	for i := range buffers {
		buffers[i] = make([]byte, 0, 2*chunk)
	}
	for from := 0; from < n; {
		var wg sync.WaitGroup
		used := 0
		for ; used < workers && from < n; used++ {
			out := &buffers[used]
			*out = (*out)[:2*min(chunk, n-from)]
			state := mix(seed ^ mix(index) ^ mix(uint64(from/chunk)<<32))
			wg.Go(func() { t.fill(*out, state) })
			from += chunk
		}
		wg.Wait()
		for _, b := range buffers[:used] {
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill draws from a bell of four uniforms (Irwin-Hall), whose variance is 1/3
// of the half width squared: close to a normal distribution and several times
// quicker to draw.
func (t tensor) fill(out []byte, state uint64) {
	scale := t.deviation / (math.Sqrt(4.0/12) * 65536)
	for i := 0; i < len(out); i += 2 {
		state += 0x9e3779b97f4a7c15
		r := mix(state)
		sum := int64(r&0xffff) + int64(r>>16&0xffff) + int64(r>>32&0xffff) + int64(r>>48) - 2*65535
		x := math.Float32bits(float32(t.mean + float64(sum)*scale))
		x += 0x7fff + x>>16&1 // round to nearest even
		binary.LittleEndian.PutUint16(out[i:], uint16(x>>16))
	}
}

// mix is the finaliser of SplitMix64 (Steele et al. 2014).
func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
