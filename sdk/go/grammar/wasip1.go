//go:build wasip1

package grammar

import (
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
)

// told, form, left and fail keep the result alive until the next call.
var (
	told       [abi.CompiledSize / 4]uint32
	form, left []byte
	fail       string
)

//go:wasmexport tgi_grammar_compile
func exportCompile(request unsafe.Pointer, n uint32) uint32 {
	c, err := compile(unsafe.Slice((*byte)(request), n))
	if err != nil {
		fail = result.Text(err)
		told = [abi.CompiledSize / 4]uint32{abi.StatusFailed, address(unsafe.Pointer(unsafe.StringData(fail))),
			uint32(len(fail))}
		return address(unsafe.Pointer(&told))
	}
	form, left = c.Form, notes(c.Dropped)
	told = [abi.CompiledSize / 4]uint32{
		abi.StatusOK, address(unsafe.Pointer(unsafe.SliceData(form))), uint32(len(form)),
		address(unsafe.Pointer(unsafe.SliceData(left))), uint32(len(left)),
	}
	return address(unsafe.Pointer(&told))
}

func address(p unsafe.Pointer) uint32 { return uint32(uintptr(p)) }
