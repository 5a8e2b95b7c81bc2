package models

import (
	"fmt"
	"slices"
)

// Processor is what a model is to run on.
type Processor struct {
	Device Device
	// Major and Minor are the compute capability of a CUDA device.
	Major, Minor int
}

// bf16Major is the compute capability from which on CUDA devices compute with BF16.
const bf16Major = 8

// Check returns an error if p cannot compute with weights of a format.
func (p Processor) Check(w Weights) error {
	if err := p.Device.Check(w); err != nil {
		return err
	}
	if p.Device == CUDA && w == BF16 && p.Major < bf16Major {
		return fmt.Errorf("weights must be %s, %s or %s on a CUDA device of compute capability %d.%d, given %q: "+
			"that needs at least %d.0", FP16, Int8, Int4, p.Major, p.Minor, w, bf16Major)
	}
	return nil
}

// autoFP32 is the number of parameters up to which Auto leaves 32-bit floats on the CPU: there the
// model is read from memory quickly enough anyway.
const autoFP32 = 250e6

// plain are the types of tensors that are not quantised.
var plain = []string{"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}

// Auto chooses the format for a checkpoint of so many parameters, whose tensors have the named types. Weights stay what
// they are, as far as the device computes with them: on a GPU floats, on the CPU integers.
func (p Processor) Auto(parameters float64, dtypes []string) Weights {
	quantised := slices.ContainsFunc(dtypes, func(d string) bool { return !slices.Contains(plain, d) })
	switch {
	case quantised && p.Device != CUDA:
		return Stored
	case quantised:
		return Int8
	case p.Device != CUDA && parameters <= autoFP32:
		return FP32
	case p.Device != CUDA:
		return Int8
	case p.Major < bf16Major, slices.Contains(dtypes, "F16") && !slices.Contains(dtypes, "BF16"):
		return FP16
	}
	return BF16 // of a mix too: its range holds what the other types do
}
