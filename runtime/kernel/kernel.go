// Package kernel holds what the sources of our CUDA kernels share: they are CUDA C behind device.h, which compile.py
// puts before them, and C behind emulate.h. Tests run them as C, so that what a device will compute is held to its
// definition without one.
//
// A kernel is a sequence of phases, between which the threads of a block wait for each other. EACH(t) runs its
// statement for each thread t, BARRIER() ends a phase, and nothing but SHARED memory, and what is declared KEPT, lives
// from one phase to the next. What the threads of a warp do together (matrices, copies that are waited for later) are
// statements between phases. Statements outside of EACH run in all threads alike. Sources define THREADS, the threads
// of a block, themselves. They are compiled without fusing products and sums, and with divisions that round.
//
// The reasons behind it: docs/rationale/gpu.md.
package kernel

import _ "embed" // the header

// Emulation is the header with which a kernel's source is C. Only the fake CUDA device of the tests reads it, so that
// it is in no program but tests.
//
//go:embed emulate.h
var Emulation string
