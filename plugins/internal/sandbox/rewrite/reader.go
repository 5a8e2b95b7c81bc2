package rewrite

import "fmt"

// reader walks a byte range. The first failure sticks: every later read returns zero and moves nothing, so a caller
// may read a whole construct and look at err once. Loops over counts look at it in each round.
type reader struct {
	b    []byte // the whole module
	pos  int
	end  int
	fail error
}

func (r *reader) ok() bool { return r.fail == nil }

func (r *reader) errorf(off int, format string, args ...any) {
	if r.fail == nil {
		r.fail = &Error{Offset: off, Text: fmt.Sprintf(format, args...)}
		r.pos = r.end
	}
}

func (r *reader) limit(off int, what string, value, limit int) bool {
	if value <= limit {
		return true
	}
	if r.fail == nil {
		r.fail = &LimitError{What: what, Limit: limit, Value: value, Offset: off}
		r.pos = r.end
	}
	return false
}

func (r *reader) u8() byte {
	if r.pos >= r.end {
		r.errorf(r.pos, "unexpected end")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > r.end-r.pos {
		r.errorf(r.pos, "%d bytes wanted, %d left", n, r.end-r.pos)
		return nil
	}
	r.pos += n
	return r.b[r.pos-n : r.pos]
}

// unsigned reads an unsigned LEB128 number of at most bits bits.
func (r *reader) unsigned(bits uint) uint64 {
	off := r.pos
	var v uint64
	for shift := uint(0); ; shift += 7 {
		if shift >= bits {
			r.errorf(off, "number longer than %d bits", bits)
			return 0
		}
		c := r.u8()
		if left := bits - shift; left < 7 && c&0x7f>>left != 0 {
			r.errorf(off, "number longer than %d bits", bits)
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}

func (r *reader) u32() uint32 { return uint32(r.unsigned(32)) }

// signed reads a signed LEB128 number of at most bits bits.
func (r *reader) signed(bits uint) int64 {
	off := r.pos
	var v int64
	for shift := uint(0); ; shift += 7 {
		if shift >= bits {
			r.errorf(off, "number longer than %d bits", bits)
			return 0
		}
		c := r.u8()
		if left := bits - shift; left < 7 {
			// The bits above the number's sign must repeat it.
			if rest := int8(c<<1) >> left; rest != 0 && rest != -1 {
				r.errorf(off, "number longer than %d bits", bits)
				return 0
			}
		}
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if s := shift + 7; s < 64 && c&0x40 != 0 {
				v |= -1 << s
			}
			return v
		}
	}
}

// count reads the length of a vector, each element of which takes at least one byte.
func (r *reader) count(what string, limit int) int {
	off := r.pos
	n := int(r.u32())
	if !r.limit(off, what, n, limit) {
		return 0
	}
	if n > r.end-r.pos {
		r.errorf(off, "%d %s wanted, %d bytes left", n, what, r.end-r.pos)
		return 0
	}
	return n
}

// index reads an index below limit.
func (r *reader) index(what string, limit int) uint32 {
	off := r.pos
	i := r.u32()
	if r.ok() && uint64(i) >= uint64(limit) {
		r.errorf(off, "%s index %d, there are %d", what, i, limit)
	}
	return i
}

// sub returns a reader for the next n bytes and moves past them.
func (r *reader) sub(n int) *reader {
	start := r.pos
	r.bytes(n)
	s := &reader{b: r.b, pos: start, end: r.pos, fail: r.fail}
	return s
}

func appendUnsigned(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	return append(appendUnsigned(b, uint64(len(s))), s...)
}

// appendSection writes a section, which holds body after its length.
func appendSection(b []byte, id byte, body []byte) []byte {
	b = append(b, id)
	b = appendUnsigned(b, uint64(len(body)))
	return append(b, body...)
}
