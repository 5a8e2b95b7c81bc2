package media

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/image/webp"
)

// riffHeader is what a WebP begins with.
const riffHeader = 12

// still makes a file of the first picture of a WebP, without the animation, the alpha channel and everything else
// around it: chunks say sizes of their own, and what is decoded must be what was measured. A picture that does not
// cover the screen that the file begins with is an error: encoders make none.
func still(data []byte) ([]byte, error) {
	var screen, picture []byte
	var find func(kind string, content []byte) bool
	find = func(kind string, content []byte) bool {
		switch kind {
		case "VP8X":
			if screen == nil {
				screen = content
			}
		case "ANMF":
			const header = 16
			if len(content) > header {
				eachChunk(content[header:], find)
			}
			return false
		case "VP8 ", "VP8L":
			picture = binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(content)))
			picture = append(picture, content...)
		}
		return picture == nil
	}
	const screenHeader = 10
	eachChunk(data[riffHeader:], find)
	if picture == nil {
		return nil, fmt.Errorf("it has no picture")
	}
	if len(picture)%2 == 1 {
		picture = append(picture, 0)
	}
	file := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(4+len(picture)))
	file = append(append(file, "WEBP"...), picture...)
	if len(screen) < screenHeader {
		return file, nil
	}
	c, err := webp.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	side := func(at int) int { return 1 + int(screen[at]) + int(screen[at+1])<<8 + int(screen[at+2])<<16 }
	if side(4) != c.Width || side(7) != c.Height {
		return nil, fmt.Errorf("its screen has %d by %d pixels, its picture %d by %d", side(4), side(7), c.Width,
			c.Height)
	}
	return file, nil
}

// eachChunk calls f with chunks of a WebP until it returns false.
func eachChunk(data []byte, f func(kind string, content []byte) bool) {
	const header = 8
	for len(data) >= header {
		n := uint64(binary.LittleEndian.Uint32(data[4:]))
		if header+n > uint64(len(data)) || !f(string(data[:4]), data[header:header+n]) {
			return
		}
		data = data[min(header+n+n%2, uint64(len(data))):]
	}
}
