package media

import "image"

// planes are the three components of a picture at full size.
type planes struct {
	width, height int
	y, cb, cr     []byte
	yStride       int
	stride        int // of cb and cr
}

// upsampled brings the colour of a picture to full size. Where it has half of the columns, or of columns and lines, it
// is interpolated as libjpeg's "fancy upsampling" does it (jdsample.c), which Pillow uses: repeating it, as package
// image does, gives edges other colours.
func upsampled(m *image.YCbCr) planes {
	b := m.Bounds()
	p := planes{width: b.Dx(), height: b.Dy(), y: m.Y, yStride: m.YStride}
	columns, lines := half(p.width), half(p.height)
	const narrow = 2 // columns that libjpeg repeats
	switch {
	case m.SubsampleRatio == image.YCbCrSubsampleRatio444:
		p.cb, p.cr, p.stride = m.Cb, m.Cr, m.CStride
		return p
	case m.SubsampleRatio == image.YCbCrSubsampleRatio422 && columns > narrow:
		p.stride = 2 * columns
		p.cb, p.cr = wide(m.Cb, m.CStride, columns, p.height), wide(m.Cr, m.CStride, columns, p.height)
		return p
	case m.SubsampleRatio == image.YCbCrSubsampleRatio420 && columns > narrow:
		p.stride = 2 * columns
		p.cb, p.cr = wideAndHigh(m.Cb, m.CStride, columns, lines), wideAndHigh(m.Cr, m.CStride, columns, lines)
		return p
	case m.SubsampleRatio == image.YCbCrSubsampleRatio440:
		p.stride = p.width
		p.cb, p.cr = high(m.Cb, m.CStride, p.width, lines), high(m.Cr, m.CStride, p.width, lines)
		return p
	}
	p.stride = p.width
	p.cb, p.cr = make([]byte, p.width*p.height), make([]byte, p.width*p.height)
	for y := range p.height {
		for x := range p.width {
			at := m.COffset(b.Min.X+x, b.Min.Y+y)
			p.cb[y*p.width+x], p.cr[y*p.width+x] = m.Cb[at], m.Cr[at]
		}
	}
	return p
}

// half is how many values of chroma stand for n of luma.
func half(n int) int { return (n + 1) / 2 }

// wide doubles the columns: three parts of the nearer one, one of the other.
func wide(from []byte, stride, columns, lines int) []byte {
	out := make([]byte, 0, 2*columns*lines)
	for y := range lines {
		line := from[y*stride:][:columns]
		for x, v := range line {
			left, right := line[max(x-1, 0)], line[min(x+1, columns-1)]
			first, second := byte((3*int(v)+int(left)+1)>>2), byte((3*int(v)+int(right)+2)>>2)
			if x == 0 {
				first = v
			}
			if x == columns-1 {
				second = v
			}
			out = append(out, first, second)
		}
	}
	return out
}

// high doubles the lines likewise.
func high(from []byte, stride, columns, lines int) []byte {
	out := make([]byte, 0, 2*columns*lines)
	for y := range 2 * lines {
		near, far := nearAndFar(from, stride, columns, lines, y)
		for x, v := range near {
			out = append(out, byte((3*int(v)+int(far[x])+1+y%2)>>2))
		}
	}
	return out
}

// nearAndFar returns the lines of chroma on both sides of line y of the picture.
func nearAndFar(from []byte, stride, columns, lines, y int) (near, far []byte) {
	other := min(max(y/2-1+y%2*2, 0), lines-1)
	return from[y/2*stride:][:columns], from[other*stride:][:columns]
}

// wideAndHigh doubles columns and lines: nine, three, three parts and one of the four nearest.
func wideAndHigh(from []byte, stride, columns, lines int) []byte {
	out := make([]byte, 0, 4*columns*lines)
	sums := make([]int, columns)
	for y := range 2 * lines {
		near, far := nearAndFar(from, stride, columns, lines, y)
		for x := range sums {
			sums[x] = 3*int(near[x]) + int(far[x])
		}
		for x, v := range sums {
			first, second := (4*v+8)>>4, (4*v+7)>>4
			if x > 0 {
				first = (3*v + sums[x-1] + 8) >> 4
			}
			if x < columns-1 {
				second = (3*v + sums[x+1] + 7) >> 4
			}
			out = append(out, byte(first), byte(second))
		}
	}
	return out
}

// upsampledVP8 brings the colour of a lossy WebP to full size with the roundings of libwebp (dsp/upsampling.c): nine
// parts of the nearest value, three of its neighbours, one of the diagonal one.
func upsampledVP8(m *image.YCbCr) planes {
	p := planes{width: m.Rect.Dx(), height: m.Rect.Dy(), y: m.Y, yStride: m.YStride}
	columns, lines := half(p.width), half(p.height)
	p.stride = 2 * columns
	double := func(from []byte) []byte {
		out := make([]byte, 0, 4*columns*lines)
		for y := range 2 * lines {
			near, far := nearAndFar(from, m.CStride, columns, lines, y)
			out = append(out, byte((3*int(near[0])+int(far[0])+2)>>2))
			for x := 1; x < columns; x++ {
				n0, n1, f0, f1 := int(near[x-1]), int(near[x]), int(far[x-1]), int(far[x])
				sum := n0 + n1 + f0 + f1 + 8
				out = append(out, byte(((sum+2*(n1+f0))>>3+n0)>>1), byte(((sum+2*(n0+f1))>>3+n1)>>1))
			}
			out = append(out, byte((3*int(near[columns-1])+int(far[columns-1])+2)>>2))
		}
		return out
	}
	p.cb, p.cr = double(m.Cb), double(m.Cr)
	return p
}

// chroma is how a format brings chroma to full size, and what its values mean.
type chroma struct {
	upsample func(*image.YCbCr) planes
	colours  colours
}

var (
	jpegChroma = chroma{upsampled, jfif}
	webpChroma = chroma{upsampledVP8, vp8}
)

// colours turns luma and chroma into red, green and blue.
type colours func(y, cb, cr int32) (r, g, b int32)

// jfif is JFIF's formula in 16 bits, as libjpeg has it (jdcolor.c).
func jfif(y, cb, cr int32) (r, g, b int32) {
	cb, cr = cb-128, cr-128
	return y + (91881*cr+1<<15)>>16, y + (-22554*cb-46802*cr+1<<15)>>16, y + (116130*cb+1<<15)>>16
}

// vp8 is the formula of lossy WebP, whose luma has the range of video, as libwebp has it (dsp/yuv.h).
func vp8(y, cb, cr int32) (r, g, b int32) {
	luma := y * 19077 >> 8
	return (luma + cr*26149>>8 - 14234) >> 6, (luma - cb*6419>>8 - cr*13320>>8 + 8708) >> 6,
		(luma + cb*33050>>8 - 17685) >> 6
}

// convert writes the picture.
func (p planes) convert(to []byte, colours colours) {
	for y := range p.height {
		luma := p.y[y*p.yStride:][:p.width]
		cb, cr := p.cb[y*p.stride:][:p.width], p.cr[y*p.stride:][:p.width]
		line := to[3*y*p.width:][:3*p.width]
		for x, l := range luma {
			r, g, b := colours(int32(l), int32(cb[x]), int32(cr[x]))
			line[3*x], line[3*x+1], line[3*x+2] = clamp(r), clamp(g), clamp(b)
		}
	}
}

func clamp(v int32) byte { return byte(min(max(v, 0), 255)) }
