// Package host has the functions of the server that a guest can call: imports in
// a guest, and the host of plugintest in native tests.
package host

// Host has the functions that a guest can call. Package plugin documents them.
type Host interface {
	Log(level uint32, text string)
	VocabSize() uint32
	TokenBytes(id uint32) ([]byte, bool)
	TokenFlags(id uint32) (uint32, bool)
	Encode(text string) ([]uint32, bool)
	Rand() uint64
}
