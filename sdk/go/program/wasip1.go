//go:build wasip1

package program

import (
	"unsafe"

	"tgi/sdk/go/internal/result"
)

//go:wasmexport tgi_program_run
func exportRun(request unsafe.Pointer, n uint32) uint64 {
	return result.Failure(Run(current, unsafe.Slice((*byte)(request), n)))
}
