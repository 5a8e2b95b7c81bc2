//go:build wasip1

package tools

import (
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
)

// layout is an event in the layout of the binary interface.
type layout [abi.EventSize / 4]uint32

// told has the encoded events of the last call. list keeps the texts that they point to alive.
var (
	told []layout
	list []Event
)

//go:wasmexport tgi_tools_begin
func exportBegin(request unsafe.Pointer, n uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(request), n)))
}

//go:wasmexport tgi_tools_feed
func exportFeed(piece unsafe.Pointer, n, flags uint32) uint64 {
	// The host writes the next piece into the same buffer, so the parser gets a copy.
	parser.Feed(string(unsafe.Slice((*byte)(piece), n)), flags&abi.PieceSpecial != 0, &events)
	return tell()
}

//go:wasmexport tgi_tools_finish
func exportFinish(reason uint32) uint64 {
	parser.Finish(reason == abi.FinishCut, &events)
	return tell()
}

// tell encodes the parser's events.
func tell() uint64 {
	list, told = events.Take(), told[:0]
	for i := range list {
		e := &list[i]
		var l layout
		l[abi.EventKind/4], l[abi.EventIndex/4], l[abi.EventReason/4] = e.Kind, uint32(int32(e.Index)), uint32(e.Reason)
		place(&l, abi.EventText, e.Text)
		place(&l, abi.EventName, e.Name)
		place(&l, abi.EventID, e.ID)
		told = append(told, l)
	}
	if len(told) == 0 {
		return 0
	}
	return abi.Pack(uint32(uintptr(unsafe.Pointer(unsafe.SliceData(told)))), uint32(len(told)))
}

// place writes the pointer and, after it, the length of s.
func place(l *layout, offset int, s string) {
	if s != "" {
		l[offset/4], l[offset/4+1] = uint32(uintptr(unsafe.Pointer(unsafe.StringData(s)))), uint32(len(s))
	}
}

// held, source, left and fail are the result of the one call of constraint.
var (
	held         [abi.CompiledSize / 4]uint32
	source, left []byte
	fail         string
)

//go:wasmexport tgi_tools_constraint
func exportConstraint(request unsafe.Pointer, n uint32) uint32 {
	c, err := constrain(unsafe.Slice((*byte)(request), n))
	if err != nil {
		fail = result.Text(err)
		held = [abi.CompiledSize / 4]uint32{abi.StatusFailed, address(unsafe.Pointer(unsafe.StringData(fail))),
			uint32(len(fail))}
		return address(unsafe.Pointer(&held))
	}
	source, left = c.text(), c.notes()
	held = [abi.CompiledSize / 4]uint32{
		abi.StatusOK, address(unsafe.Pointer(unsafe.SliceData(source))), uint32(len(source)),
		address(unsafe.Pointer(unsafe.SliceData(left))), uint32(len(left)),
	}
	return address(unsafe.Pointer(&held))
}

func address(p unsafe.Pointer) uint32 { return uint32(uintptr(p)) }
