package attend

import _ "embed" // the kernels as C

// Source is the kernels' source, which is C behind kernel.Emulation: the fake CUDA device of the tests runs it. Nothing
// else reads it, so that it is in no program but tests.
//
//go:embed attend.cu
var Source string
