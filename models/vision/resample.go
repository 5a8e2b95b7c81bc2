package vision

import (
	"fmt"
	"math"
)

// filter is a resampling filter of Pillow. Its numbers are Pillow's, which the configurations of image processors have.
type filter int

const (
	lanczos  filter = 1
	bilinear filter = 2
	bicubic  filter = 3
)

// support returns the distance from which on the filter is 0.
func (f filter) support() float64 {
	switch f {
	case lanczos:
		return 3
	case bicubic:
		return 2
	}
	return 1
}

// at returns the filter's weight at a distance.
func (f filter) at(x float64) float64 {
	switch x = math.Abs(x); {
	case x >= f.support():
		return 0
	case f == lanczos:
		return sinc(x) * sinc(x/3)
	case f == bilinear:
		return 1 - x
	case x < 1: // the cubic convolution of Keys 1981 with a = -0.5
		return (1.5*x-2.5)*x*x + 1
	default:
		return ((-0.5*x+2.5)*x-4)*x + 2
	}
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// taps are the input pixels that make one output pixel, and their weights in fixed point.
type taps struct {
	first   int
	weights []int32
}

// Weights have as many bits as fit into 16 with the largest of them, and at most maxBits.
const (
	weightLimit = 1 << 15
	maxBits     = 22
)

// weigh returns the taps of output pixels from to to, of out that are made from in, and the bits of their weights. The
// filter is stretched where pixels are lost. This is what PyTorch's interpolate does with antialias for pixels of 8
// bits (UpSampleKernel.cpp), which torchvision resizes with, after Pillow's Resample.c.
func (f filter) weigh(in, out, from, to int) ([]taps, int) {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	support := f.support() * stretch
	exact := func(i int) (first int, w []float64) {
		center := (float64(i) + 0.5) * scale
		first = max(int(center-support+0.5), 0)
		last := min(int(center+support+0.5), in)
		sum := 0.0
		for j := first; j < last; j++ {
			x := f.at((float64(j) - center + 0.5) / stretch)
			w, sum = append(w, x), sum+x
		}
		for j := range w {
			if sum != 0 {
				w[j] /= sum
			}
		}
		return first, w
	}
	bits := weightBits(exact, out)
	list := make([]taps, to-from)
	for i := range list {
		first, w := exact(from + i)
		list[i] = taps{first, make([]int32, len(w))}
		for j, x := range w {
			list[i].weights[j] = int32(math.Copysign(math.Floor(math.Abs(x)*float64(int(1)<<bits)+0.5), x))
		}
	}
	return list, bits
}

// weightBits returns the bits of the weights of out pixels.
func weightBits(exact func(int) (int, []float64), out int) int {
	most := 0.0
	for i := range out {
		_, w := exact(i)
		for _, x := range w {
			most = max(most, x)
		}
	}
	bits := 0
	for bits < maxBits && int(0.5+most*float64(int(1)<<(bits+1))) < weightLimit {
		bits++
	}
	return bits
}

// window is a part of a picture.
type window struct{ x, y, width, height int }

// whole is all of a picture of some size.
func whole(width, height int) window { return window{0, 0, width, height} }

// resize returns a part of the picture that p becomes when it is resized to width by height: first each line, then each
// column, rounded to 8 bits in between.
func (p Image) resize(f filter, width, height int, part window) Image {
	if width == p.Width && height == p.Height {
		return p.crop(part)
	}
	first, last := part.y, part.y+part.height // lines that matter
	var down []taps
	downBits := 0
	if height != p.Height {
		down, downBits = f.weigh(p.Height, height, part.y, part.y+part.height)
		first, last = p.Height, 0
		for _, t := range down {
			first, last = min(first, t.first), max(last, t.first+len(t.weights))
		}
	}
	middle := p.crop(window{0, first, p.Width, last - first})
	if width != p.Width {
		across, bits := f.weigh(p.Width, width, part.x, part.x+part.width)
		middle = middle.acrossLines(across, bits)
	} else {
		middle = middle.crop(window{part.x, 0, part.width, middle.Height})
	}
	if down == nil {
		return middle
	}
	for i := range down {
		down[i].first -= first
	}
	return middle.alongColumns(down, downBits)
}

// acrossLines resamples each line.
func (p Image) acrossLines(list []taps, bits int) Image {
	out := Image{Width: len(list), Height: p.Height, Pix: make([]byte, 3*len(list)*p.Height)}
	for y := range p.Height {
		line := p.Pix[3*y*p.Width:][:3*p.Width]
		to := out.Pix[3*y*out.Width:][:3*out.Width]
		for x, t := range list {
			var sum [3]int64
			from := line[3*t.first:]
			for j, w := range t.weights {
				sum[0] += int64(w) * int64(from[3*j])
				sum[1] += int64(w) * int64(from[3*j+1])
				sum[2] += int64(w) * int64(from[3*j+2])
			}
			for c, s := range sum {
				to[3*x+c] = clip(s, bits)
			}
		}
	}
	return out
}

// alongColumns resamples each column.
func (p Image) alongColumns(list []taps, bits int) Image {
	size := 3 * p.Width
	out := Image{Width: p.Width, Height: len(list), Pix: make([]byte, size*len(list))}
	sums := make([]int64, size)
	for y, t := range list {
		clear(sums)
		for j, w := range t.weights {
			for x, pixel := range p.Pix[size*(t.first+j):][:size] {
				sums[x] += int64(w) * int64(pixel)
			}
		}
		to := out.Pix[size*y:][:size]
		for x, s := range sums {
			to[x] = clip(s, bits)
		}
	}
	return out
}

// clip rounds a sum of fixed point to a pixel.
func clip(sum int64, bits int) byte {
	sum += 1 << bits >> 1
	return byte(min(max(sum>>bits, 0), 255))
}

// crop returns a part of the picture; the rest of it is black where it lies outside.
func (p Image) crop(part window) Image {
	if part == whole(p.Width, p.Height) {
		return p
	}
	out := Image{Width: part.width, Height: part.height, Pix: make([]byte, 3*part.width*part.height)}
	from, to := max(part.x, 0), min(part.x+part.width, p.Width)
	for y := max(part.y, 0); y < min(part.y+part.height, p.Height) && from < to; y++ {
		copy(out.Pix[3*((y-part.y)*part.width+from-part.x):], p.Pix[3*(y*p.Width+from):3*(y*p.Width+to)])
	}
	return out
}

// check returns an error for a picture whose numbers do not fit together.
func (p Image) check() error {
	if p.Width < 1 || p.Height < 1 || len(p.Pix) != 3*p.Width*p.Height {
		return fmt.Errorf("BUG: vision: a picture of %d by %d has %d bytes", p.Width, p.Height, len(p.Pix))
	}
	return nil
}
