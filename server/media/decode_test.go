package media

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func newFetcher(o Options) *Fetcher {
	if o.Bytes == 0 {
		o.Bytes = 1 << 20
	}
	if o.Pixels == 0 {
		o.Pixels = 1 << 20
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	return New(o)
}

// golden is what Pillow makes of a file: RGB is compressed.
type golden struct {
	Width, Height int
	RGB           []byte
}

func readGoldens(t testing.TB) map[string]golden {
	t.Helper()
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Pictures map[string]golden }
	if err := json.Unmarshal(data, &all); err != nil || len(all.Pictures) < 130 {
		t.Fatal(len(all.Pictures), err)
	}
	return all.Pictures
}

func (g golden) pixels(t testing.TB) []byte {
	t.Helper()
	r, err := zlib.NewReader(bytes.NewReader(g.RGB))
	if err != nil {
		t.Fatal(err)
	}
	pix, err := io.ReadAll(r)
	if err != nil || len(pix) != 3*g.Width*g.Height {
		t.Fatal(len(pix), err)
	}
	return pix
}

func readPicture(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/pictures", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPixelsOfPillow: pictures in all forms have the pixels that Pillow gives them. Those of JPEG may differ a little:
// the inverse DCTs of Go and libjpeg round differently, by 1 in each of the three planes that make a colour.
func TestPixelsOfPillow(t *testing.T) {
	f := newFetcher(Options{})
	for name, want := range readGoldens(t) {
		data := readPicture(t, name)
		width, height, err := f.Size(data)
		if err != nil || width != want.Width || height != want.Height {
			t.Errorf("%s: %d by %d, want %d by %d (%v)", name, width, height, want.Width, want.Height, err)
		}
		p, err := f.Decode(t.Context(), data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Width != want.Width || p.Height != want.Height || len(p.Pix) != 3*p.Width*p.Height {
			t.Errorf("%s: %d by %d with %d bytes", name, p.Width, p.Height, len(p.Pix))
			continue
		}
		differ, most := 0, 0
		for i, v := range want.pixels(t) {
			if d := max(v, p.Pix[i]) - min(v, p.Pix[i]); d > 0 {
				differ, most = differ+1, max(most, int(d))
			}
		}
		if most > 3 || most > 0 && !strings.HasSuffix(name, ".jpg") {
			t.Errorf("%s: %d of %d values differ, by %d at most", name, differ, len(p.Pix), most)
		}
	}
}

// TestDeepGrey: of grey in 16 bits the upper 8 are taken. Pillow's convert gives white for nearly all of it.
func TestDeepGrey(t *testing.T) {
	m := image.NewGray16(image.Rect(0, 0, 2, 1))
	m.SetGray16(0, 0, color.Gray16{Y: 0x1234})
	m.SetGray16(1, 0, color.Gray16{Y: 0xfedc})
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	p, err := newFetcher(Options{}).Decode(t.Context(), b.Bytes())
	if want := []byte{0x12, 0x12, 0x12, 0xfe, 0xfe, 0xfe}; err != nil || !bytes.Equal(p.Pix, want) {
		t.Errorf("%x, %v, want %x", p.Pix, err, want)
	}
}

// pngOf returns the beginning of a PNG that claims a size.
func pngOf(width, height uint32) []byte {
	var b bytes.Buffer
	b.WriteString("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	head = append(binary.BigEndian.AppendUint32(head, height), 8, 2, 0, 0, 0)
	_ = binary.Write(&b, binary.BigEndian, uint32(13))
	b.Write(head)
	_ = binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(head))
	return b.Bytes()
}

// riff makes a WebP of chunks.
func riff(chunks ...[]byte) []byte {
	return append([]byte("RIFF\x00\x00\x00\x00WEBP"), slices.Concat(chunks...)...)
}

func chunk(kind string, content ...[]byte) []byte {
	all := slices.Concat(content...)
	out := append(binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(all))), all...)
	return append(out, make([]byte, len(all)%2)...)
}

// screen is the chunk with which a WebP says its size.
func screen(width, height uint32) []byte {
	return chunk("VP8X", []byte{2, 0, 0, 0, byte(width - 1), byte((width - 1) >> 8), 0, byte(height - 1),
		byte((height - 1) >> 8), 0})
}

// lossless is the beginning of a lossless picture.
func lossless(width, height uint32) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0x2f}, width-1|(height-1)<<14), 0, 0, 0, 0, 0)
}

// TestRefused: what is no picture, or too large a one, is an error that says what was found, and allocates nothing to
// speak of.
func TestRefused(t *testing.T) {
	gifBomb := []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02")
	jpegBomb := []byte("\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01" +
		"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00")
	bomb, small := chunk("VP8L", lossless(16384, 16384)), readPicture(t, "lossy-64x48.webp")[12:]
	whole := readPicture(t, "rgb-8.png")
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"nothing", "Given: nothing", nil},
		{"SVG", "want PNG, JPEG, WebP or GIF. Given: an SVG",
			[]byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`)},
		{"HTML", "Given: an HTML page", []byte("<!DOCTYPE html><html>")},
		{"PDF", "Given: a PDF", []byte("%PDF-1.7 ...")},
		{"BMP", "Given: a BMP", []byte("BM....................")},
		{"a TIFF", "Given: a TIFF", []byte("II*\x00\x08\x00\x00\x00")},
		{"an AVIF", "Given: an AVIF", []byte("\x00\x00\x00\x1cftypavif\x00\x00\x00\x00")},
		{"a JPEG that is a PDF", "invalid image: it is JPEG and a PDF at once",
			[]byte("\xff\xd8\xff\xfe\x00\x0b%PDF-1.7\x0a\xff\xd9")},
		{"a PNG that is a ZIP", "invalid image: it is PNG and a ZIP archive at once",
			append(whole[:len(whole):len(whole)], "PK\x05\x06PK\x05\x06"+strings.Repeat("\x00", 16)+"\x02\x00hi"...)},
		{"a picture behind text", "Given: text that begins with \"hello ",
			append([]byte("hello "), bytes.Repeat([]byte(" "), 600)...)},
		{"a huge PNG", "an image of 50000 by 50000 pixels has more than 1048576 (images.pixels)", pngOf(50000, 50000)},
		{"a PNG of no size", "invalid image: ", pngOf(0, 7)},
		{"a PNG of an overflowing size", "invalid image: ", pngOf(1<<31, 1<<31)},
		{"a narrow PNG", "an image of 2000 by 3 pixels is too narrow: one side may be 200 times the other",
			pngOf(2000, 3)},
		{"a huge GIF", "an image of 65535 by 65535 pixels", gifBomb},
		{"a huge JPEG", "an image of 65535 by 65535 pixels", jpegBomb},
		{"a huge WebP", "an image of 16384 by 16384 pixels", riff(bomb)},
		{"a WebP with two screens", "its screen has 32 by 32 pixels, its picture 16384 by 16384",
			riff(screen(32, 32), screen(16384, 16384), chunk("ANMF", make([]byte, 16), bomb))},
		{"a WebP with a huge frame", "an image of 16384 by 16384 pixels",
			riff(screen(16384, 16384), chunk("ANMF", make([]byte, 16), bomb))},
		{"a WebP with a lying screen", "its screen has 300 by 300 pixels, its picture 64 by 48",
			riff(screen(300, 300), small)},
		{"a WebP with a lying frame", "its screen has 300 by 300 pixels, its picture 64 by 48",
			riff(screen(300, 300), chunk("ANMF", make([]byte, 16), small))},
		{"a WebP without a picture", "invalid image: WebP: it has no picture", riff(screen(20, 20))},
		{"a PNG cut short", "invalid image: PNG: ", whole[:len(whole)/2]},
		{"a JPEG cut short", "invalid image: JPEG: ", readPicture(t, "jpeg-420-64x48.jpg")[:400]},
		{"a GIF cut short", "invalid image: GIF: ", readPicture(t, "plain.gif")[:300]},
		{"a WebP cut short", "invalid image: WebP: ", readPicture(t, "lossy-64x48.webp")[:100]},
		{"a PNG of its header", "invalid image: PNG: ", whole[:8]},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := newFetcher(Options{}).Decode(t.Context(), c.data)
		runtime.ReadMemStats(&after)
		if bad, ok := err.(*Error); !ok || !strings.Contains(bad.Msg, c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", c.name, n)
		}
	}
}

// passes returns a progressive JPEG that goes over its components in turn, n times in all.
func passes(side uint16, components, n int) []byte {
	// a table of quantization
	b := []byte("\xff\xd8\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00\xff\xdb\x00\x43\x00" + strings.Repeat("\x01",
		64))
	b = append(b, 0xff, 0xc2, 0, byte(8+3*components), 8)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, side), side)
	b = append(b, byte(components))
	for c := range components {
		b = append(b, byte(c+1), 0x11, 0)
	}
	// One code, of one bit: no values in the next 2^14 blocks, and in as many more as the 14 bits behind it say.
	b = append(b, "\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 15)+"\xe0"...)
	scan := []byte("\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00")
	bits, count := uint64(0), 0
	for blocks := (int(side) + 7) / 8 * ((int(side) + 7) / 8); blocks > 0; blocks -= 1<<15 - 1 {
		for bits, count = bits<<15|(1<<14-1), count+15; count >= 8; count -= 8 {
			if scan = append(scan, byte(bits>>(count-8))); scan[len(scan)-1] == 0xff {
				scan = append(scan, 0)
			}
		}
	}
	scan = append(scan, byte(bits<<(8-count)|(1<<(8-count)-1))&0x7f)
	for i := range n {
		scan[5] = byte(i%components + 1)
		b = append(b, scan...)
	}
	return append(b, "\xff\xd9"...)
}

// TestDecodeTakesLong: a file that keeps its decoder busy is given up, and others are decoded then.
func TestDecodeTakesLong(t *testing.T) {
	f := newFetcher(Options{Bytes: 20 << 20, Pixels: 24_000_000, Timeout: 300 * time.Millisecond})
	if p, err := newFetcher(Options{}).Decode(t.Context(), passes(800, 1, 3)); err != nil || p.Width != 800 {
		t.Fatal(err)
	}
	_, err := f.Decode(t.Context(), passes(4800, 1, 200_000)) // half an hour
	if bad, ok := err.(*Error); !ok ||
		bad.Msg != "invalid image: decoding it takes longer than 300ms (images.timeout)" {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := newFetcher(Options{Pixels: 24_000_000, Timeout: time.Hour}).Decode(gone,
		passes(4800, 1, 200_000)); err != context.Canceled {
		t.Error("a client that went:", err)
	}
	f.o.Timeout = time.Minute
	if _, err := f.Decode(t.Context(), readPicture(t, "rgb-8.png")); err != nil {
		t.Error(err)
	}
}

// TestDecodeMemory: what decoding allocates for each pixel is bounded as Options says, also in the costliest form: all
// coefficients of a progressive JPEG in CMYK are held until its end.
func TestDecodeMemory(t *testing.T) {
	const side = 1600
	f := newFetcher(Options{Pixels: side * side})
	for _, components := range []int{1, 3, 4} {
		data := passes(side, components, components)
		turned := "\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00" +
			"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
		data = append([]byte("\xff\xd8"+turned), data[2:]...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := f.Decode(t.Context(), data)
		runtime.ReadMemStats(&after)
		if err != nil || p.Width != side {
			t.Fatal(err)
		}
		each := float64(after.TotalAlloc-before.TotalAlloc) / (side * side)
		t.Logf("%d components: %.1f bytes for each pixel", components, each)
		if each > 40 {
			t.Errorf("%d components: %.1f bytes for each pixel", components, each)
		}
	}
}

// TestDeepGIF: of an animation only the first frame is read, however many follow and whatever is in them.
func TestDeepGIF(t *testing.T) {
	whole := readPicture(t, "plain.gif")
	f := newFetcher(Options{Bytes: 20 << 20})
	want, err := f.Decode(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte("\x2c\x00\x00\x00\x00\x25\x00\x1d\x00")) // its descriptor: 37 by 29 at 0, 0
	frame := whole[at : len(whole)-1]
	deep := append(bytes.Clone(whole[:len(whole)-1]), bytes.Repeat(frame, 5000)...)
	deep = append(deep, "not a frame"...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := f.Decode(t.Context(), deep)
	runtime.ReadMemStats(&after)
	if err != nil || !bytes.Equal(p.Pix, want.Pix) {
		t.Errorf("%d by %d, %v", p.Width, p.Height, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// FuzzDecode: no bytes end the process, and a picture that is decoded has the size that was told.
func FuzzDecode(f *testing.F) {
	for name := range readGoldens(f) {
		f.Add(readPicture(f, name))
	}
	f.Add(pngOf(50000, 50000))
	fetcher := newFetcher(Options{Pixels: 1 << 16})
	f.Fuzz(func(t *testing.T, data []byte) {
		width, height, err := fetcher.Size(data)
		p, bad := fetcher.Decode(t.Context(), data)
		if bad == nil && (err != nil || p.Width != width || p.Height != height || len(p.Pix) != 3*width*height) {
			t.Errorf("%d by %d with %d bytes, told were %d by %d (%v)", p.Width, p.Height, len(p.Pix), width, height,
				err)
		}
	})
}
