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
	// step, fail and edits keep the data that the struct points to alive until the next call.
	step  Step
	fail  string
	edits [][abi.EditSize / 4]uint32
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
	at := (*[abi.GuardSize / 4]uint32)(p)
	step.Tokens = view[uint32](at[abi.GuardTokens/4], at[abi.GuardTokenCount/4])
	step.Prompt = int(at[abi.GuardPromptCount/4])
	step.New = int(at[abi.GuardNewCount/4])
	step.Released = int(at[abi.GuardReleased/4])
	step.Text = view[byte](at[abi.GuardText/4], at[abi.GuardTextBytes/4])
	step.Context = int(at[abi.GuardContext/4])
	step.Ends = view[uint32](at[abi.GuardEnds/4], uint32(len(step.Tokens)-step.Released))
	step.Reason = at[abi.GuardReason/4]
	step.Reset()
	if err := sequence.Check(&step); err != nil {
		fail = result.Text(err)
		at[abi.GuardOut/4], at[abi.GuardOutCount/4] = address(unsafe.StringData(fail)), uint32(len(fail))
		return abi.StatusFailed
	}
	r := &step.result
	at[abi.GuardVerdict/4], at[abi.GuardPosition/4] = r.Verdict, uint32(r.Position)
	switch {
	case r.Verdict == abi.VerdictRewind:
		at[abi.GuardOut/4], at[abi.GuardOutCount/4] = address(unsafe.SliceData(r.Biases)), uint32(len(r.Biases))
	case r.Edits != nil:
		edits = edits[:0]
		for _, e := range r.Edits {
			edits = append(edits, [...]uint32{uint32(e.From), uint32(e.To), address(unsafe.StringData(e.Words)),
				uint32(len(e.Words))})
		}
		at[abi.GuardOut/4], at[abi.GuardOutCount/4] = address(unsafe.SliceData(edits)), uint32(len(edits))
		at[abi.GuardFlags/4] = abi.FlagEdits
	default:
		at[abi.GuardOut/4], at[abi.GuardOutCount/4] = address(unsafe.StringData(r.Text)), uint32(len(r.Text))
	}
	if r.Done {
		at[abi.GuardFlags/4] |= abi.FlagDone
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
