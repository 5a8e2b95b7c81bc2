//go:build wasip1

package logits

import (
	"math"
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
)

var (
	// room contains the step struct of the binary interface. It has twice its
	// size, so that the struct can be aligned.
	room [2 * abi.StepSize]byte
	// step and fail keep the data that the struct points to alive until the next call.
	step Step
	fail string
)

//go:wasmexport tgi_logits_step
func stepRoom() uint32 {
	at := uint32(uintptr(unsafe.Pointer(&room)))
	return (at + abi.Alignment - 1) &^ (abi.Alignment - 1)
}

//go:wasmexport tgi_logits_begin
func exportBegin(params unsafe.Pointer, n uint32, prompt unsafe.Pointer, count uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(params), n), unsafe.Slice((*uint32)(prompt), count)))
}

//go:wasmexport tgi_logits_process
func exportProcess(p unsafe.Pointer) int32 {
	raw := (*[abi.StepSize / 4]uint32)(p)
	step.Tokens = view[uint32](raw, abi.StepTokens)
	step.Prompt = int(raw[abi.StepPromptCount/4])
	step.New = int(raw[abi.StepNewCount/4])
	step.View = view[Entry](raw, abi.StepView)
	step.Row = view[float32](raw, abi.StepRow)
	step.Reset()
	if err := processor.Process(&step); err != nil {
		fail = result.Text(err)
		raw[abi.StepOut/4], raw[abi.StepOutCount/4] = address(unsafe.StringData(fail)), uint32(len(fail))
		return abi.StatusFailed
	}
	write(raw, &step.result)
	return abi.StatusOK
}

// view makes a slice of the pointer at offset and the count that follows it;
// StepTokens, StepView and StepRow are such pairs.
func view[T any](raw *[abi.StepSize / 4]uint32, offset int) []T {
	n := raw[offset/4+1]
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(nil, raw[offset/4])), n)
}

func address[T any](p *T) uint32 { return uint32(uintptr(unsafe.Pointer(p))) }

func write(raw *[abi.StepSize / 4]uint32, r *Result) {
	raw[abi.StepMode/4] = r.Mode
	switch r.Mode {
	case abi.ModeAllow, abi.ModeDeny:
		out(raw, abi.StepOut, r.IDs)
	case abi.ModeSparse, abi.ModeView:
		out(raw, abi.StepOut, r.Entries)
	case abi.ModeBitmask:
		out(raw, abi.StepOut, r.Words)
	case abi.ModeRow:
		out(raw, abi.StepOut, r.Row)
	}
	var flags uint32
	if r.Only {
		flags |= abi.FlagOnly
	}
	if r.Stop {
		flags |= abi.FlagStop
	}
	raw[abi.StepFlags/4] = flags
	raw[abi.StepTemperature/4] = math.Float32bits(r.Temperature)
	out(raw, abi.StepForce, r.Force)
}

// out writes the pointer and the count of s. step.result keeps s alive.
func out[T any](raw *[abi.StepSize / 4]uint32, offset int, s []T) {
	raw[offset/4], raw[offset/4+1] = address(unsafe.SliceData(s)), uint32(len(s))
}
