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
//
// Where no instruction can ask for them, the hollow module lacks the data segments too: an engine keeps each of them,
// of which a Go guest has 37,000, in every instance. data is what [Segments] reads then, else nil.
func Hollow(out []byte) (hollow, data []byte, err error) {
	body := []byte{3, 0, 0, opEnd} // three bytes: no locals, unreachable, end
	r := &reader{b: out, end: len(out)}
	hollow = bytes.Clone(r.bytes(8))
	counted := false // instructions that name data segments need their count
	for r.ok() && r.pos < r.end {
		start := r.pos
		id := r.u8()
		s := r.sub(int(r.u32()))
		section := out[start:r.pos]
		switch id {
		case secDataCount:
			counted = true
		case secCode:
			n := s.count("functions", math.MaxInt)
			section = appendVector(nil, secCode, vector{n, bytes.Repeat(body, n)})
		case secData:
			if body := out[s.pos:s.end]; !counted && Segments(body, func(uint32, []byte) bool { return true }) == nil {
				section, data = nil, bytes.Clone(body) // out holds all the code
			}
		}
		hollow = append(hollow, section...)
		if s.fail != nil {
			r.fail = s.fail
		}
	}
	if !r.ok() {
		return nil, nil, r.fail
	}
	sum := sha256.Sum256(out)
	name := appendName(nil, hollowSection)
	return appendSection(hollow, secCustom, append(name, sum[:]...)), data, nil
}

// Segments calls f for each data segment in the body of a section, until it returns false. The error says which one is
// passive, or at an address that is no constant.
func Segments(data []byte, f func(at uint32, b []byte) bool) error {
	r := &reader{b: data, end: len(data)}
	for i := range r.count("data segments", math.MaxInt) {
		flag, op := r.u32(), r.u8()
		at, end := uint32(r.signed(32)), r.u8()
		if r.ok() && (flag != 0 || op != opI32Const || end != opEnd) {
			r.errorf(r.pos, "data segment %d is not at a constant address", i)
		}
		b := r.bytes(int(r.u32()))
		if !r.ok() || !f(at, b) {
			return r.fail
		}
	}
	return r.fail
}
