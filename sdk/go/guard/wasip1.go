//go:build wasip1

package guard

import (
	"unsafe"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/result"
)

var (
	// room contains the guard's struct of the binary interface. It has twice its
	// size, so that the struct can be aligned.
	room [2 * abi.GuardSize]byte
	// step and fail keep the data that the struct points to alive until the next call.
	step Step
	fail string
)

//go:wasmexport tgi_guard_step
func stepRoom() uint32 {
	at := uint32(uintptr(unsafe.Pointer(&room)))
	return (at + abi.Alignment - 1) &^ (abi.Alignment - 1)
}

//go:wasmexport tgi_guard_begin
func exportBegin(params unsafe.Pointer, n uint32, prompt unsafe.Pointer, count uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(params), n), unsafe.Slice((*uint32)(prompt), count)))
}

//go:wasmexport tgi_guard_check
func exportCheck(p unsafe.Pointer) int32 {
	raw := (*[abi.GuardSize / 4]uint32)(p)
	step.Tokens = view[uint32](raw[abi.GuardTokens/4], raw[abi.GuardTokenCount/4])
	step.Prompt = int(raw[abi.GuardPromptCount/4])
	step.New = int(raw[abi.GuardNewCount/4])
	step.Released = int(raw[abi.GuardReleased/4])
	step.Text = view[byte](raw[abi.GuardText/4], raw[abi.GuardTextBytes/4])
	step.Context = int(raw[abi.GuardContext/4])
	step.Ends = view[uint32](raw[abi.GuardEnds/4], uint32(len(step.Tokens)-step.Released))
	step.Reason = raw[abi.GuardReason/4]
	step.Reset()
	if err := sequence.Check(&step); err != nil {
		fail = result.Text(err)
		raw[abi.GuardOut/4], raw[abi.GuardOutCount/4] = address(unsafe.StringData(fail)), uint32(len(fail))
		return abi.StatusFailed
	}
	r := &step.result
	raw[abi.GuardVerdict/4], raw[abi.GuardPosition/4] = r.Verdict, uint32(r.Position)
	if r.Verdict == abi.VerdictRewind {
		raw[abi.GuardOut/4], raw[abi.GuardOutCount/4] = address(unsafe.SliceData(r.Biases)), uint32(len(r.Biases))
	} else {
		raw[abi.GuardOut/4], raw[abi.GuardOutCount/4] = address(unsafe.StringData(r.Text)), uint32(len(r.Text))
	}
	if r.Done {
		raw[abi.GuardFlags/4] = abi.FlagDone
	}
	return abi.StatusOK
}

func view[T any](at, n uint32) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(nil, at)), n)
}

func address[T any](p *T) uint32 { return uint32(uintptr(unsafe.Pointer(p))) }
