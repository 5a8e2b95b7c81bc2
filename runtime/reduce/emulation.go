package reduce

import _ "embed" // the kernel as C

// Source is the kernel's source, which is C behind kernel.Emulation: the fake CUDA device of the tests runs it. Nothing
// else reads it, so that it is in no program but tests.
//
//go:embed reduce.cu
var Source string
