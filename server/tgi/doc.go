// Package tgi speaks the native API of text-generation-inference, dialect
// tgi-3: its bodies, error texts, headers and event streams, byte for byte.
//
// A handler decodes, starts a generate.Run, and encodes what comes back; no
// handler checks or decides anything that generate already did.
package tgi
