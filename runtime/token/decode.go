package token

import (
	"strings"
	"unicode/utf8"
)

// A sink receives decoded text in fragments. start says that the fragment begins a token of
// the decoder chain; a decoder that joins tokens passes only one start. finish is called
// once, at the end.
type sink interface {
	feed(fragment string, start bool)
	finish()
}

// decoder is one entry of the file's decoder. stage returns its stage in front of next. With
// strict the stage produces what the reference produces for the whole text; otherwise it may
// emit text early that later tokens would have changed.
type decoder interface {
	stage(next sink, strict bool) sink
}

// stringSink is the end of a chain.
type stringSink struct{ strings.Builder }

func (c *stringSink) feed(s string, _ bool) { c.WriteString(s) }
func (c *stringSink) finish()               {}

// newChain puts the decoders in front of out.
func newChain(ds []decoder, out sink, strict bool) sink {
	for i := len(ds) - 1; i >= 0; i-- {
		out = ds[i].stage(out, strict)
	}
	return out
}

// invalidLen returns how many bytes at the start of b, which does not start with a valid
// character, become one U+FFFD: the longest valid prefix of a character, or one byte. It
// returns len(b) and open if more bytes could complete the character.
func invalidLen(b []byte) (n int, open bool) {
	if !utf8.FullRune(b) {
		return len(b), true
	}
	for n = 1; n < len(b) && !utf8.FullRune(b[:n]); n++ {
	}
	if n > 1 {
		n--
	}
	return n, false
}

// toValidUTF8 returns s with invalid UTF-8 replaced by U+FFFD.
func toValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out stringSink
	d := byteDecoder{}.stage(&out, true).(*byteStage)
	d.bytes([]byte(s))
	d.finish()
	return out.String()
}

// byteDecoder is the ByteLevel decoder.
type byteDecoder struct{}

type byteStage struct {
	next    sink
	held    []byte // the beginning of an incomplete character
	started bool
}

func (byteDecoder) stage(next sink, _ bool) sink { return &byteStage{next: next} }

// feed takes a token: its bytes, or its own text if it is not in the byte alphabet.
func (d *byteStage) feed(token string, _ bool) {
	if raw, ok := fromByteAlphabet(token); ok {
		token = raw
	}
	if len(d.held) == 0 && utf8.ValidString(token) {
		d.emit(token)
		return
	}
	d.bytes([]byte(token))
}

// bytes emits the complete characters of held and b, and holds the rest.
func (d *byteStage) bytes(b []byte) {
	b = append(d.held, b...)
	var out strings.Builder
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out.Write(b[:n])
			b = b[n:]
			continue
		}
		n, open := invalidLen(b)
		if open {
			break
		}
		out.WriteRune(utf8.RuneError)
		b = b[n:]
	}
	d.held = append(d.held[:0], b...)
	d.emit(out.String())
}

func (d *byteStage) open() bool { return len(d.held) > 0 }

func (d *byteStage) emit(s string) {
	if s != "" {
		d.next.feed(s, !d.started)
		d.started = true
	}
}

func (d *byteStage) finish() {
	if len(d.held) > 0 {
		d.held = d.held[:0]
		d.emit("\uFFFD")
	}
	d.next.finish()
}

// fallbackDecoder is the ByteFallback decoder: a run of tokens <0xHH> becomes text or, if it
// is not valid UTF-8, one U+FFFD for each byte.
type fallbackDecoder struct{}

type fallbackStage struct {
	next   sink
	strict bool
	held   []byte
}

func (fallbackDecoder) stage(next sink, strict bool) sink {
	return &fallbackStage{next: next, strict: strict}
}

func (d *fallbackStage) feed(token string, start bool) {
	b, ok := byteToken(token)
	if !ok {
		d.flush()
		d.next.feed(token, start)
		return
	}
	d.held = append(d.held, b)
	if d.strict {
		return // flush decodes the whole run
	}
	for len(d.held) > 0 {
		n := 0
		if r, size := utf8.DecodeRune(d.held); r != utf8.RuneError || size > 1 {
			n = size
			d.next.feed(string(r), true)
		} else if broken, open := invalidLen(d.held); !open {
			n = broken
			d.broken(n)
		} else {
			return
		}
		d.held = append(d.held[:0], d.held[n:]...)
	}
}

func (d *fallbackStage) open() bool { return len(d.held) > 0 }

func (d *fallbackStage) broken(n int) {
	for range n {
		d.next.feed("\uFFFD", true)
	}
}

func (d *fallbackStage) flush() {
	if utf8.Valid(d.held) {
		if len(d.held) > 0 {
			d.next.feed(string(d.held), true)
		}
	} else {
		d.broken(len(d.held))
	}
	d.held = d.held[:0]
}

func (d *fallbackStage) finish() {
	d.flush()
	d.next.finish()
}

// byteToken parses a token of the form <0xHH>.
func byteToken(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	hi, lo := unhex(s[3]), unhex(s[4])
	if s[3] == '+' { // the reference reads <0x+5> as a byte
		hi = 0
	}
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// fuseDecoder is the Fuse decoder.
type fuseDecoder struct{}

type fuseStage struct {
	next    sink
	started bool
}

func (fuseDecoder) stage(next sink, _ bool) sink { return &fuseStage{next: next} }

func (d *fuseStage) feed(s string, _ bool) {
	d.next.feed(s, !d.started)
	d.started = true
}

func (d *fuseStage) finish() { d.next.finish() }

// joinDecoder is used if the file has no decoder: it puts spaces between tokens.
type joinDecoder struct{}

type joinStage struct {
	next    sink
	started bool
}

func (joinDecoder) stage(next sink, _ bool) sink { return &joinStage{next: next} }

func (d *joinStage) feed(s string, start bool) {
	if start && d.started {
		d.next.feed(" ", true)
	}
	d.started = true
	d.next.feed(s, start)
}

func (d *joinStage) finish() { d.next.finish() }
