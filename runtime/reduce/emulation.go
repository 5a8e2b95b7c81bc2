package reduce

import _ "embed" // the kernel as C

// Source is the kernel's source, and Emulation the header with which it is C: the fake CUDA device of the tests runs
// it. Nothing else reads them, so that they are in no program but tests.
var (
	//go:embed reduce.cu
	Source string
	//go:embed testdata/emulate.h
	Emulation string
)
