//go:build wasip1

package steps

import (
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
	"tgi/sdk/go/plugin"
)

// ahead keeps the forced tokens alive until the next call.
var ahead []uint32

//go:wasmexport tgi_grammar_begin
func exportBegin(request unsafe.Pointer, n uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(request), n)))
}

//go:wasmexport tgi_grammar_accept
func exportAccept(tokens unsafe.Pointer, n uint32) uint32 {
	if accept(unsafe.Slice((*uint32)(tokens), n)) {
		return abi.StatusOK
	}
	return abi.StatusFailed
}

//go:wasmexport tgi_grammar_mask
func exportMask(words unsafe.Pointer) uint32 {
	return mask(unsafe.Slice((*uint32)(words), abi.MaskWords(plugin.VocabSize())))
}

//go:wasmexport tgi_grammar_forced
func exportForced() uint64 {
	if ahead = forced(); len(ahead) == 0 {
		return 0
	}
	return abi.Pack(uint32(uintptr(unsafe.Pointer(unsafe.SliceData(ahead)))), uint32(len(ahead)))
}

//go:wasmexport tgi_grammar_key
func exportKey() uint64 { return key() }
