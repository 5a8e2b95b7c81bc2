//go:build wasip1

package draft

import (
	"unsafe"

	"tgi/sdk/go/internal/result"
	"tgi/sdk/go/plugin"
)

//go:wasmexport tgi_draft_begin
func exportBegin(params unsafe.Pointer, n uint32, prompt unsafe.Pointer, count uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(params), n), unsafe.Slice((*uint32)(prompt), count)))
}

//go:wasmexport tgi_draft_propose
func exportPropose(tokens unsafe.Pointer, count, fresh uint32, to unsafe.Pointer, room uint32) int32 {
	n, err := drafter.Propose(unsafe.Slice((*uint32)(tokens), count), int(fresh), unsafe.Slice((*uint32)(to), room))
	if err != nil {
		plugin.Error(result.Text(err))
		return -1
	}
	return int32(n)
}
