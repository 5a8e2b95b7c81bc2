package logits

import (
	"fmt"
	"math"
	"unsafe"

	"tgi/sdk/abi"
)

// rowBytes is a row's memory, which is little-endian on both sides: package guest refuses other machines.
func rowBytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// rowOf is a row in the guest's memory, whose address is aligned to 4.
func rowOf(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// forbidden is a part of a row in which no token is allowed.
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

// replace copies the row that the guest edited. A NaN or +Inf that the row had before is not the guest's fault, and
// stays.
func (r *row) replace(out []byte) error {
	edited := rowOf(out)
	for i := unusable(edited, 0); i < len(edited); i = unusable(edited, i+1) {
		if math.Float32bits(edited[i]) != math.Float32bits(r.x[i]) {
			return fmt.Errorf("mode %s: %v for token %d: it must not be NaN or +Inf", abi.ModeNames[abi.ModeRow],
				edited[i], i)
		}
	}
	if r.checkOnly {
		return nil
	}
	if e := (row{x: edited, alive: r.alive}); !e.hasCandidate() {
		return errDead(abi.ModeRow)
	}
	copy(r.x, edited)
	return nil
}

// unusable returns the index of the first NaN or +Inf from start, or len(x).
func unusable(x []float32, start int) int {
	for start < len(x) {
		start += vectorUsable(x[start:])
		end := min(start+blockLen, len(x))
		for ; start < end; start++ {
			if !usable(x[start]) {
				return start
			}
		}
	}
	return start
}
