// Package host owns the guest's view of the server: the imports in a guest,
// and in native tests whatever plugintest puts in their place.
package host

// Host answers what a guest may ask. plugin documents each.
type Host interface {
	Log(level uint32, text string)
	VocabSize() uint32
	TokenBytes(id uint32) ([]byte, bool)
	TokenFlags(id uint32) (uint32, bool)
	Encode(text string) ([]uint32, bool)
	Rand() uint64
}
