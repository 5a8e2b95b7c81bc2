package media

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// polyglot names what an image is read as by other programs. They look for a PDF in the first kilobyte, and for a ZIP
// (so for JAR, APK and office documents) from the end. Other bytes after an image, such as a phone's video, are no
// fault.
func polyglot(b []byte) string {
	if bytes.Contains(b[:min(len(b), 1024)], []byte("%PDF-")) {
		return "a PDF"
	}
	const record, longest = 22, 22 + 65535
	start := max(0, len(b)-longest)
	for end := len(b); ; {
		at := bytes.LastIndex(b[start:end], []byte("PK\x05\x06"))
		if at < 0 {
			return ""
		}
		end = start + at
		if r := b[end:]; len(r) >= record && record+int(binary.LittleEndian.Uint16(r[record-2:])) == len(r) {
			return "a ZIP archive"
		}
	}
}

var others = []struct{ prefix, name string }{
	{"%PDF-", "a PDF"}, {"II*\x00", "a TIFF"}, {"MM\x00*", "a TIFF"}, {"II+\x00", "a TIFF"}, {"MM\x00+", "a TIFF"},
	{"BM", "a BMP"}, {"\x00\x00\x01\x00", "an icon (ICO)"},
	{"8BPS", "a Photoshop file"}, {"PK\x03\x04", "a ZIP archive"},
	{"\x00\x00\x00\x0cjP  ", "a JPEG 2000"}, {"\xff\x4f\xff\x51", "a JPEG 2000"}, {"\xff\x0a", "a JPEG XL"},
	{"\x00\x00\x00\x0cJXL ", "a JPEG XL"}, {"\x1f\x8b", "gzip data"}, {"#!", "a script"},
}

// found names what bytes are that are no image we read.
func found(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	for _, o := range others {
		if bytes.HasPrefix(b, []byte(o.prefix)) {
			return o.name
		}
	}
	if len(b) >= 12 && string(b[4:8]) == "ftyp" {
		switch string(b[8:12]) {
		case "avif", "avis":
			return "an AVIF"
		case "heic", "heix", "mif1", "msf1", "heim", "heis":
			return "a HEIF"
		}
		return "a video (MP4)"
	}
	head := b[:min(len(b), 1024)]
	if bytes.Contains(bytes.ToLower(head), []byte("<svg")) {
		return "an SVG"
	}
	switch kind, _, _ := bytes.Cut([]byte(http.DetectContentType(head)), []byte(";")); {
	case string(kind) == "text/html":
		return "an HTML page"
	case string(kind) == "text/plain" && utf8.Valid(b[:min(len(b), 64)]):
		return fmt.Sprintf("text that begins with %q", b[:min(len(b), 40)])
	default:
		return string(kind)
	}
}
