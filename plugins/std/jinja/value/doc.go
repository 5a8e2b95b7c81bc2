// Package value is Python's values as templates see them: their types, operators,
// iteration, reprs and exceptions, with Python's own error texts. Values are
// immutable, save for namespaces and iterators.
//
// Every byte of a [Str] knows whether it came from the template or from the
// request; every operation keeps that. What an operation costs it takes from the
// [Thread] of the rendering, whose budget ends templates that loop or build
// gigabytes.
package value
