//go:build wasip1

package template

import (
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
)

// rendered, out and fail keep the result alive until the next call.
var (
	rendered [abi.RenderedSize / 4]uint32
	out      Output
	fail     string
)

//go:wasmexport tgi_template_render
func exportRender(request unsafe.Pointer, n uint32) uint32 {
	out = Output{}
	status, text := uint32(abi.StatusOK), unsafe.Pointer(nil)
	if err := render(unsafe.Slice((*byte)(request), n), &out); err != nil {
		fail, out = result.Text(err), Output{}
		status, text, n = abi.StatusFailed, unsafe.Pointer(unsafe.StringData(fail)), uint32(len(fail))
	} else {
		text, n = unsafe.Pointer(unsafe.SliceData(out.text)), uint32(len(out.text))
	}
	rendered[abi.RenderedStatus/4] = status
	rendered[abi.RenderedText/4], rendered[abi.RenderedTextBytes/4] = address(text), n
	rendered[abi.RenderedSpans/4] = address(unsafe.Pointer(unsafe.SliceData(out.spans)))
	rendered[abi.RenderedSpanCount/4] = uint32(len(out.spans))
	return address(unsafe.Pointer(&rendered))
}

func address(p unsafe.Pointer) uint32 { return uint32(uintptr(p)) }
