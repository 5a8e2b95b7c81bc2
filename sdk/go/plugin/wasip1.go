//go:build wasip1

package plugin

import (
	"runtime"
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/result"
)

// rooms keeps the buffers that alloc returned: the host owns them for the life of the instance.
var rooms [][]byte

//go:wasmexport tgi_abi_v1
func marker() {}

//go:wasmexport tgi_alloc
func alloc(size uint32) uint32 {
	if size > 1<<31-abi.Alignment {
		return 0
	}
	b := make([]byte, uint(size)+abi.Alignment)
	rooms = append(rooms, b)
	at := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return (at + abi.Alignment - 1) &^ (abi.Alignment - 1)
}

//go:wasmexport tgi_describe
func describe() uint64 { return result.Pack(registry.Description()) }

//go:wasmexport tgi_init
func initialise(config unsafe.Pointer, n uint32) uint64 {
	err := registry.Init(unsafe.Slice((*byte)(config), n))
	reserve()
	return result.Failure(err)
}

//go:wasmexport tgi_validate
func validate(params unsafe.Pointer, n uint32) uint64 {
	return result.Failure(registry.Begin(unsafe.Slice((*byte)(params), n), nil))
}

// reserve brings the heap into the state that it has after many sequences, with
// Headroom bytes free and the Go runtime's records of them allocated. An instance
// then allocates within the snapshot's memory and can be reused. Each round
// allocates objects of every size class, with and without pointers, and then the
// headroom, in pieces that each have a record. The collector runs while all of
// this is in use and again when none of it is. The second round allocates what
// the collector itself needs for this.
func reserve() {
	for range 2 {
		fill()
		runtime.GC()
	}
}

func fill() {
	const each, piece = 32 << 10, 8 << 10
	var pieces [][]byte
	var pointers [][]*byte
	for size := 16; size <= 32<<10; size += max(16, size/8&^15) {
		for n := 0; n < each; n += size {
			pieces = append(pieces, make([]byte, size))
			pointers = append(pointers, make([]*byte, size/8))
		}
	}
	for n := 0; n < registry.Headroom; n += piece {
		pieces = append(pieces, make([]byte, piece))
	}
	runtime.GC()
	runtime.KeepAlive(pieces)
	runtime.KeepAlive(pointers)
}
