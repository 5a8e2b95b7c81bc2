package logits

import (
	"encoding/binary"
	"fmt"
	"math"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// outputs is the set of outputs that a guest may use.
type outputs struct {
	modes                    [abi.ModeRow + 1]bool
	stop, force, temperature bool
	vocab                    uint32
}

// declared returns the outputs of a description.
func declared(d guest.Description, vocab int) outputs {
	o := outputs{
		stop: d.Declares(abi.NameStop), force: d.Declares(abi.NameForce), temperature: d.Declares(abi.NameTemperature),
		vocab: uint32(vocab),
	}
	o.modes[abi.ModePass] = true
	for mode, name := range abi.ModeNames {
		o.modes[mode] = o.modes[mode] || d.Declares(name)
	}
	return o
}

// answer is the validated outputs of one step, except for the contents of arrays, which are in the guest's memory.
type answer struct {
	mode, out, count    uint32
	flags               uint32
	temperature         float32
	forceAt, forceCount uint32
}

// entryBytes is the size of one entry of the array of each mode.
var entryBytes = [abi.ModeRow + 1]uint64{
	abi.ModeAllow: 4, abi.ModeDeny: 4, abi.ModeSparse: abi.SparseEntrySize, abi.ModeBitmask: 4,
	abi.ModeView: abi.ViewEntrySize, abi.ModeRow: 4,
}

// decode reads the guest's result from its struct step in memory. The error names the rule and the value that breaks
// it.
func decode(memory, step []byte, status uint32, o outputs) (answer, error) {
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(step[at:]) }
	a := answer{
		mode: field(abi.StepMode), out: field(abi.StepOut), count: field(abi.StepOutCount), flags: field(abi.StepFlags),
		temperature: math.Float32frombits(field(abi.StepTemperature)),
		forceAt:     field(abi.StepForce), forceCount: field(abi.StepForceCount),
	}
	if status != abi.StatusOK {
		return a, failed(memory, status, a.out, a.count)
	}
	// The most common result.
	if a.mode == abi.ModePass && a.flags == 0 && a.forceCount == 0 && a.temperature != a.temperature {
		return a, nil
	}
	if a.mode > abi.ModeRow {
		return a, fmt.Errorf("mode %d: the last is %d", a.mode, abi.ModeRow)
	}
	if !o.modes[a.mode] {
		return a, undeclared("mode", abi.ModeNames[a.mode])
	}
	if err := a.checkBeside(o); err != nil {
		return a, err
	}
	if err := a.checkArray(memory, o.vocab); err != nil {
		return a, err
	}
	if a.forceCount > 0 {
		return a, inside(memory, "forced tokens", a.forceAt, a.forceCount, 4)
	}
	return a, nil
}

// checkBeside checks the outputs other than the mode.
func (a *answer) checkBeside(o outputs) error {
	switch {
	case a.flags&^(abi.FlagOnly|abi.FlagStop) != 0:
		return fmt.Errorf("flags 0x%x: there are 1 (only) and 2 (stop)", a.flags)
	case a.flags&abi.FlagOnly != 0 && a.mode != abi.ModeSparse && a.mode != abi.ModeView:
		return fmt.Errorf("flag only with mode %s: it goes with %s and %s", abi.ModeNames[a.mode],
			abi.ModeNames[abi.ModeSparse], abi.ModeNames[abi.ModeView])
	case a.flags&abi.FlagStop != 0 && !o.stop:
		return undeclared("flag", abi.NameStop)
	case a.temperature < 0 || a.temperature > math.MaxFloat32:
		return fmt.Errorf("temperature %v: it must be NaN, 0, or positive and finite", a.temperature)
	case a.temperature == a.temperature && !o.temperature:
		return undeclared("output", abi.NameTemperature)
	case a.forceCount > 0 && !o.force:
		return undeclared("output", abi.NameForce)
	case a.forceCount > abi.MaxForced:
		return fmt.Errorf("%d forced tokens: the limit is %d", a.forceCount, abi.MaxForced)
	}
	return nil
}

// checkArray checks the address and the length of the mode's array.
func (a *answer) checkArray(memory []byte, vocab uint32) error {
	name := abi.ModeNames[a.mode]
	want := a.count
	switch a.mode {
	case abi.ModePass:
		return nil
	case abi.ModeBitmask:
		want = abi.MaskWords(vocab)
	case abi.ModeRow:
		want = vocab
	case abi.ModeView:
		want = min(want, vocab) // an id stands in it once
	}
	if a.count != want {
		return fmt.Errorf("mode %s: out count %d, the vocabulary of %d makes it %d", name, a.count, vocab, want)
	}
	if err := inside(memory, "out", a.out, a.count, entryBytes[a.mode]); err != nil {
		return fmt.Errorf("mode %s: %w", name, err)
	}
	return nil
}

// inside checks that an array lies in memory and is aligned.
func inside(memory []byte, what string, at, n uint32, size uint64) error {
	if at%4 != 0 {
		return fmt.Errorf("%s: address 0x%x is not aligned to 4", what, at)
	}
	if uint64(at)+uint64(n)*size > uint64(len(memory)) {
		return fmt.Errorf("%s: %d entries of %d bytes at 0x%x, the memory has %d bytes", what, n, size, at, len(memory))
	}
	return nil
}

func undeclared(what, name string) error {
	return fmt.Errorf("%s %s: the description does not declare it", what, name)
}

// failed is the error for a status other than StatusOK.
func failed(memory []byte, status, at, n uint32) error {
	if status != abi.StatusFailed {
		return fmt.Errorf("status %d: there are %d and %d", int32(status), abi.StatusOK, abi.StatusFailed)
	}
	if uint64(at)+uint64(n) > uint64(len(memory)) {
		return fmt.Errorf("the guest failed, and its text of %d bytes at 0x%x lies outside of the memory of %d", n, at,
			len(memory))
	}
	if n == 0 {
		return fmt.Errorf("the guest failed without a text")
	}
	return fmt.Errorf("the guest failed: %s", guest.ErrorText(memory[at:uint64(at)+uint64(n)]))
}
