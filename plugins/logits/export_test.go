package logits

import "tgi/sdk/abi"

// Apply applies an answer's array to a row.
func Apply(x []float32, mode, flags uint32, out []byte, dry bool) error {
	r := row{x: x, checkOnly: dry}
	defer r.putScratch()
	return r.apply(mode, flags, out)
}

// Decoded decodes the outputs of a step struct, and applies them to a row.
func Decoded(memory []byte, step, status uint32, x []float32) error {
	o := outputs{stop: true, force: true, temperature: true, vocab: uint32(len(x))}
	for i := range o.modes {
		o.modes[i] = true
	}
	a, err := decode(memory, memory[step:], status, o)
	if err != nil {
		return err
	}
	p := Processor{answer: a, vocab: len(x)}
	if err := p.force(memory); err != nil || a.mode == abi.ModePass {
		return err
	}
	r := row{x: x, checkOnly: a.forceCount > 0}
	defer r.putScratch()
	return r.apply(a.mode, a.flags, memory[a.out:uint64(a.out)+uint64(a.count)*entryBytes[a.mode]])
}

// WriteView and Unusable are exported for the tests of rows.
var (
	WriteView = writeView
	Unusable  = unusable
)
