package media

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

// orientation says how a picture is turned, as Exif does: 1 to 8, 1 is upright.
type orientation int

// swaps reports whether width and height change places.
func (o orientation) swaps() bool { return o >= 5 }

// apply turns a picture upright.
func (o orientation) apply(p Picture) Picture {
	if o <= 1 {
		return p
	}
	w, h := p.Width, p.Height
	out := Picture{Width: w, Height: h, Pix: make([]byte, len(p.Pix))}
	if o.swaps() {
		out.Width, out.Height = h, w
	}
	for y := range out.Height {
		for x := range out.Width {
			fromX, fromY := x, y
			switch o {
			case 2:
				fromX = w - 1 - x
			case 3:
				fromX, fromY = w-1-x, h-1-y
			case 4:
				fromY = h - 1 - y
			case 5:
				fromX, fromY = y, x
			case 6:
				fromX, fromY = y, h-1-x
			case 7:
				fromX, fromY = w-1-y, h-1-x
			case 8:
				fromX, fromY = w-1-y, x
			}
			copy(out.Pix[3*(y*out.Width+x):][:3], p.Pix[3*(fromY*w+fromX):])
		}
	}
	return out
}

// exifHeader begins an Exif block in a JPEG, and in some other files.
const exifHeader = "Exif\x00\x00"

// metadata are the blocks of a file that may say how its picture is turned.
type metadata struct{ exif, xmp []byte }

var xmpOrientation = regexp.MustCompile(`tiff:Orientation(="|>)([0-9])`)

// orientation returns how the picture is turned, as Pillow finds it: Exif beats XMP, and what can't be read is upright.
func (m metadata) orientation() orientation {
	o, ok := exifOrientation(m.exif)
	if found := xmpOrientation.FindSubmatch(m.xmp); !ok && found != nil {
		o = orientation(found[2][0] - '0')
	}
	if o < 1 || o > 8 {
		return 1
	}
	return o
}

// exifOrientation reads the orientation in an Exif block.
func exifOrientation(block []byte) (o orientation, ok bool) {
	block = bytes.TrimPrefix(block, []byte(exifHeader))
	if len(block) < 8 {
		return 0, false
	}
	var order binary.ByteOrder
	switch string(block[:2]) {
	case "II":
		order = binary.LittleEndian
	case "MM":
		order = binary.BigEndian
	default:
		return 0, false
	}
	at := uint64(order.Uint32(block[4:]))
	if at+2 > uint64(len(block)) {
		return 0, false
	}
	const tag, size = 0x0112, 12
	entries := block[at+2:]
	for range order.Uint16(block[at:]) {
		if len(entries) < size {
			return 0, false
		}
		if order.Uint16(entries) == tag {
			return orientation(order.Uint16(entries[8:])), true
		}
		entries = entries[size:]
	}
	return 0, false
}

// jpegMetadata reads the segments before the first scan.
func jpegMetadata(b []byte) (m metadata) {
	const app1, startOfScan, endOfImage = 0xE1, 0xDA, 0xD9
	for b = b[2:]; len(b) >= 4; {
		if b[0] != 0xFF || b[1] == 0xFF || b[1] == 0 || b[1] >= 0xD0 && b[1] <= 0xD7 {
			b = b[1:] // fill bytes
			continue
		}
		marker, n := b[1], int(binary.BigEndian.Uint16(b[2:]))
		if marker == startOfScan || marker == endOfImage || n < 2 || len(b) < 2+n {
			return m
		}
		data := b[4 : 2+n]
		if marker == app1 {
			if bytes.HasPrefix(data, []byte("Exif\x00\x00")) && m.exif == nil {
				m.exif = data
			} else if xmp, ok := bytes.CutPrefix(data, []byte("http://ns.adobe.com/xap/1.0/\x00")); ok {
				m.xmp = xmp
			}
		}
		b = b[2+n:]
	}
	return m
}

func pngMetadata(b []byte) (m metadata) {
	for b = b[8:]; len(b) >= 12; {
		n := uint64(binary.BigEndian.Uint32(b))
		if n+12 > uint64(len(b)) {
			return m
		}
		data := b[8 : 8+n]
		switch string(b[4:8]) {
		case "eXIf":
			m.exif = data
		case "iTXt":
			if text, ok := bytes.CutPrefix(data, []byte("XML:com.adobe.xmp\x00\x00")); ok {
				m.xmp = text
			}
		case "IEND":
			return m
		}
		b = b[12+n:]
	}
	return m
}

func webpMetadata(b []byte) (m metadata) {
	eachChunk(b[riffHeader:], func(kind string, data []byte) bool {
		switch kind {
		case "EXIF":
			m.exif = data
		case "XMP ":
			m.xmp = data
		}
		return true
	})
	return m
}
