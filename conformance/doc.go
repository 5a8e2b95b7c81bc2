// Package conformance owns the rules that the whole project answers to: kits
// that hold any engine model to the behaviour of the paged backend, and the
// tests that police the tree itself (directions of imports, documentation,
// names).
//
// The reasons behind it: docs/rationale/architecture.md.
package conformance
