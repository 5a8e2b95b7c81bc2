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

// headroom is what the heap may grow by after the snapshot without asking for
// memory: the collector starts its first cycle at 4 MiB.
const headroom = 6 << 20

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

// reserve grows the heap and empties it again, so that sequences allocate
// within the snapshot's memory and their instances can be used again.
func reserve() {
	for _, size := range []int{headroom, 64 << 10} {
		b := make([]byte, size)
		runtime.KeepAlive(b)
	}
	runtime.GC()
	runtime.GC()
}
