// Package compare holds what one backend computes against another, step by step, below the server: a device against
// the CPU in 32 bits, a batch against its rows alone, a step in pieces against the step as a whole, a copied cache
// block against the one it was copied from.
//
// Run plays the same token sequences in every way that the scheduler can ask for: prompts as a whole and in pieces,
// rows that join and leave a batch, blocks that several rows share, rows that fork in the middle of a block. The
// tokens are given, never sampled, so that rounding cannot send two backends different ways.
//
// Callers: the report of conformance/cuda. It starts no goroutines.
package compare
