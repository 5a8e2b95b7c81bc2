//go:build wasip1

package result

import (
	"unsafe"

	"tgi/sdk/abi"
)

// last keeps the returned text alive until the next one.
var last []byte

// Pack packs a text as a result and keeps it alive until the next one.
func Pack(b []byte) uint64 {
	last = b
	if len(b) == 0 {
		return 0
	}
	return abi.Pack(uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint32(len(b)))
}

// Failure packs an error's text, 0 for nil.
func Failure(err error) uint64 {
	if err == nil {
		return 0
	}
	return Pack([]byte(Text(err)))
}
