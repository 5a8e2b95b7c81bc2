package logits

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"tgi/sdk/abi"
)

// rowBytes is a row as it stands in memory, which is little-endian on both sides: package guest refuses other machines.
func rowBytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// forbidden is a piece of row in which nothing is allowed.
var forbidden = func() (x [1024]float32) {
	for i := range x {
		x[i] = negInf
	}
	return x
}()

// forbid denies all tokens of x.
func forbid(x []float32) {
	for len(x) > 0 {
		x = x[copy(x, forbidden[:]):]
	}
}

// replace takes over the row as the guest edited it. A NaN or +Inf that the row had before is not the guest's, and stays.
func (r *row) replace(out []byte) error {
	for start := 0; start < len(out); {
		end := min(start+4*len(forbidden), len(out))
		if suspicious(out[start:end]) {
			for i := start; i < end; i += 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(out[i:]))
				if !usable(v) && math.Float32bits(v) != math.Float32bits(r.x[i/4]) {
					return fmt.Errorf("mode %s: %v for token %d: it must not be NaN or +Inf", abi.ModeNames[abi.ModeRow], v, i/4)
				}
			}
		}
		start = end
	}
	if r.dry {
		return nil
	}
	if !bytesLive(out, &r.alive) {
		return errDead(abi.ModeRow)
	}
	copy(rowBytes(r.x), out)
	return nil
}

// suspicious reports whether any of the values is NaN or +Inf. It looks at two values at a time: with the sign taken off
// and 0x007fffff added, or one more for a positive value, bit 31 is set for +Inf and NaN of either sign, and not for
// -Inf.
func suspicious(b []byte) bool {
	const (
		magnitude = 0x7fffffff_7fffffff
		almost    = 0x007fffff_007fffff
		ones      = 0x00000001_00000001
		top       = 0x80000000_80000000
	)
	look := func(v uint64) uint64 { return v&magnitude + (almost + (^v >> 31 & ones)) }
	var found uint64
	for len(b) >= 32 {
		found |= look(binary.LittleEndian.Uint64(b)) | look(binary.LittleEndian.Uint64(b[8:])) |
			look(binary.LittleEndian.Uint64(b[16:])) | look(binary.LittleEndian.Uint64(b[24:]))
		b = b[32:]
	}
	if found&top != 0 {
		return true
	}
	for ; len(b) >= 4; b = b[4:] {
		if !usable(math.Float32frombits(binary.LittleEndian.Uint32(b))) {
			return true
		}
	}
	return false
}

// bytesLive reports whether a row in bytes allows a token, and which; it begins with that one.
func bytesLive(b []byte, token *int) bool {
	at := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) }
	if *token < len(b)/4 && at(*token) > negInf {
		return true
	}
	for i := range len(b) / 4 {
		if at(i) > negInf {
			*token = i
			return true
		}
	}
	return false
}
