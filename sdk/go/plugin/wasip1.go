//go:build wasip1

package plugin

import (
	"runtime"
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/result"
)

// rooms keeps what alloc handed out: it is the host's for the life of the instance.
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

// reserve leaves the heap as it is after many sequences, so that an instance
// allocates within the snapshot's memory and can be used again. Each round
// allocates objects of many sizes, as many bytes as Headroom says and never
// less than the 4 MiB at which the collector starts its first cycle, and
// collects them. The second round lets the collector allocate what it keeps
// about them.
func reserve() {
	for range 2 {
		room := max(headroom, 2<<20)
		for size := 16; size <= 32<<10; size *= 2 {
			for n := 0; n < room/12; n += size {
				sink = make([]byte, size)
			}
		}
		sink = make([]byte, room)
		sink = nil
		runtime.GC()
	}
}

// sink makes the compiler keep the allocations.
var sink []byte
