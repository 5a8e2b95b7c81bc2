package kvevents

import (
	"encoding/binary"
	"math"
)

// These append values of msgpack: those that events have.

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// appendString is for strings shorter than 32 bytes.
func appendString(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendUint(b []byte, n uint32) []byte {
	switch {
	case n < 128:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xce), n)
}

// appendHash always takes nine bytes: readers in Go take shorter integers for other types.
func appendHash(b []byte, h uint64) []byte { return binary.BigEndian.AppendUint64(append(b, 0xcf), h) }

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f))
}
