package rewrite

import (
	"bytes"
	"crypto/sha256"
	"math"
)

// hollowSection is the custom section of a hollow module that has the SHA-256 of the whole one.
const hollowSection = ReservedPrefix + "hollow"

// Hollow returns the module that out, the output of [Rewrite], is without its code: each function traps at once, all
// else is as it was. It is what an engine needs to know of a module whose machine code it has: it need not read all
// code, and check its types, once more. No other module has the same hollow one.
func Hollow(out []byte) ([]byte, error) {
	body := []byte{3, 0, 0, opEnd} // three bytes: no locals, unreachable, end
	r := &reader{b: out, end: len(out)}
	hollow := bytes.Clone(r.bytes(8))
	for r.ok() && r.pos < r.end {
		start := r.pos
		id := r.u8()
		s := r.sub(int(r.u32()))
		if id == secCode {
			n := s.count("functions", math.MaxInt)
			hollow = appendVector(hollow, secCode, vector{n, bytes.Repeat(body, n)})
		} else {
			hollow = append(hollow, out[start:r.pos]...)
		}
		if s.fail != nil {
			r.fail = s.fail
		}
	}
	if !r.ok() {
		return nil, r.fail
	}
	sum := sha256.Sum256(out)
	return appendSection(hollow, secCustom, append(appendName(nil, hollowSection), sum[:]...)), nil
}
