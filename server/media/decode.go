package media

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/webp"
)

// maxRatio bounds the longer side of a picture over the shorter one: no model sees anything in a narrower one.
const maxRatio = 200

// format is a format of pictures.
type format struct {
	name   string
	is     func(data []byte) bool
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	// metadata returns what a file says of itself.
	metadata func(data []byte) metadata
}

var formats = []format{
	{"PNG", begins("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode, pngMetadata},
	{"JPEG", begins("\xff\xd8\xff"), jpeg.DecodeConfig, jpeg.Decode, jpegMetadata},
	{"GIF", begins("GIF8"), gif.DecodeConfig, gif.Decode, func([]byte) metadata { return metadata{} }},
	{"WebP", func(d []byte) bool { return len(d) >= 12 && string(d[:4]) == "RIFF" && string(d[8:12]) == "WEBP" },
		webp.DecodeConfig, webp.Decode, webpMetadata},
}

func begins(with string) func([]byte) bool {
	return func(data []byte) bool { return strings.HasPrefix(string(data[:min(len(data), len(with))]), with) }
}

// of returns the format of a file.
func of(data []byte) (format, error) {
	for _, f := range formats {
		if !f.is(data) {
			continue
		}
		if also := polyglot(data); also != "" {
			return format{}, refuse("invalid image: it is %s and %s at once", f.name, also)
		}
		return f, nil
	}
	return format{}, refuse("invalid image: want PNG, JPEG, WebP or GIF. Given: %s", found(data))
}

// Size returns the width and height of a picture from the beginning of its file, as they are once it is turned upright.
func (f *Fetcher) Size(data []byte) (width, height int, err error) {
	defer contain(&err)
	kind, err := of(data)
	if err != nil {
		return 0, 0, err
	}
	_, c, err := f.inspect(kind, data)
	if err != nil {
		return 0, 0, err
	}
	if kind.metadata(data).orientation().swaps() {
		return c.Height, c.Width, nil
	}
	return c.Width, c.Height, nil
}

// inspect returns what is to be decoded of a file, and what it says of itself.
func (f *Fetcher) inspect(kind format, data []byte) (file []byte, c image.Config, err error) {
	file = data
	if kind.name == "WebP" {
		if file, err = still(data); err != nil {
			return nil, c, broken(kind, err)
		}
	}
	if c, err = kind.config(bytes.NewReader(file)); err != nil {
		return nil, c, broken(kind, err)
	}
	return file, c, f.checkSize(c.Width, c.Height)
}

// checkSize returns an error for a picture that is not decoded.
func (f *Fetcher) checkSize(width, height int) error {
	switch {
	case width < 1 || height < 1:
		return refuse("invalid image: it has %d by %d pixels", width, height)
	case int64(width) > f.o.Pixels/int64(height):
		return refuse("an image of %d by %d pixels has more than %d (images.pixels)", width, height, f.o.Pixels)
	case max(width, height) > maxRatio*min(width, height):
		return refuse("an image of %d by %d pixels is too narrow: one side may be %d times the other", width, height,
			maxRatio)
	}
	return nil
}

// Decode decodes a picture, turns it upright, and drops what it has beside red, green and blue: the results of Pillow's
// exif_transpose and convert("RGB"). One is decoded at a time. Errors are *Error, or ctx's cause.
func (f *Fetcher) Decode(ctx context.Context, data []byte) (p Picture, err error) {
	select {
	case <-f.decode:
		defer func() { f.decode <- struct{}{} }()
	case <-ctx.Done():
		return p, context.Cause(ctx)
	}
	defer contain(&err)
	kind, err := of(data)
	if err != nil {
		return p, err
	}
	late := refuse("invalid image: decoding it takes longer than %s (images.timeout)", f.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, f.o.Timeout, late)
	defer cancel()
	file, c, err := f.inspect(kind, data)
	if err != nil {
		return p, err
	}
	decoded, err := kind.decode(&pieces{file, func() error { return context.Cause(ctx) }})
	if ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	if err != nil {
		return p, broken(kind, err)
	}
	if frame, ok := decoded.(*image.Paletted); ok && kind.name == "GIF" {
		decoded = onScreen(frame, data)
	}
	if size := decoded.Bounds().Size(); size != (image.Point{X: c.Width, Y: c.Height}) {
		return p, broken(kind, fmt.Errorf("it has %d by %d pixels and says %d by %d", size.X, size.Y, c.Width,
			c.Height))
	}
	chroma := jpegChroma
	if kind.name == "WebP" {
		chroma = webpChroma
	}
	return kind.metadata(data).orientation().apply(rgb(decoded, chroma)), nil
}

// pieces gives a decoder its file in small pieces until ended returns an error: a JPEG may go over the whole picture
// for every 40 bytes of it, and a file of 2 MB would keep a core busy, and all other pictures waiting, for minutes.
type pieces struct {
	left  []byte
	ended func() error
}

// Read implements io.Reader.
func (p *pieces) Read(to []byte) (int, error) {
	if err := p.ended(); err != nil {
		return 0, err
	}
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	const size = 512
	n := copy(to[:min(len(to), size)], p.left)
	p.left = p.left[n:]
	return n, nil
}

// contain makes an error of a decoder's panic.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = refuse("invalid image: %v", r)
	}
}

// broken is a file whose decoder fails.
func broken(f format, err error) error { return refuse("invalid image: %s: %v", f.name, err) }

// rgb returns the red, green and blue of a picture, from luma and chroma as the format says.
func rgb(from image.Image, chroma chroma) Picture {
	b := from.Bounds()
	p := Picture{Width: b.Dx(), Height: b.Dy(), Pix: make([]byte, 3*b.Dx()*b.Dy())}
	line := func(y int) []byte { return p.Pix[3*y*p.Width:][:3*p.Width] }
	switch m := from.(type) {
	case *image.YCbCr:
		chroma.upsample(m).convert(p.Pix, chroma.colours)
	case *image.NYCbCrA:
		chroma.upsample(&m.YCbCr).convert(p.Pix, chroma.colours)
	case *image.Gray:
		for y := range p.Height {
			for x, v := range m.Pix[y*m.Stride:][:p.Width] {
				to := line(y)[3*x:]
				to[0], to[1], to[2] = v, v, v
			}
		}
	case *image.NRGBA:
		for y := range p.Height {
			drop(line(y), m.Pix[y*m.Stride:][:4*p.Width], 4, 1)
		}
	case *image.RGBA: // what the decoders give only where nothing is transparent
		for y := range p.Height {
			drop(line(y), m.Pix[y*m.Stride:][:4*p.Width], 4, 1)
		}
	case *image.NRGBA64:
		for y := range p.Height {
			drop(line(y), m.Pix[y*m.Stride:][:8*p.Width], 8, 2)
		}
	case *image.RGBA64:
		for y := range p.Height {
			drop(line(y), m.Pix[y*m.Stride:][:8*p.Width], 8, 2)
		}
	case *image.Paletted:
		palette(p, m)
	default:
		for y := range p.Height {
			to := line(y)
			for x := range p.Width {
				c := color.NRGBAModel.Convert(from.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
				to[3*x], to[3*x+1], to[3*x+2] = c.R, c.G, c.B
			}
		}
	}
	return p
}

// drop copies the first three of the channels of a line, which has size bytes for each pixel and step for each channel.
func drop(to, from []byte, size, step int) {
	for i, k := 0, 0; i+2 < len(to); i, k = i+3, k+size {
		to[i], to[i+1], to[i+2] = from[k], from[k+step], from[k+2*step]
	}
}

// palette looks the colours of a picture up.
func palette(p Picture, m *image.Paletted) {
	var colors [256][3]byte
	for i, c := range m.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		if v, ok := c.(color.NRGBA); ok {
			n = v // also where it is transparent
		}
		colors[i] = [3]byte{n.R, n.G, n.B}
	}
	for y := range p.Height {
		for x, index := range m.Pix[y*m.Stride:][:p.Width] {
			copy(p.Pix[3*(y*p.Width+x):], colors[index][:])
		}
	}
}
