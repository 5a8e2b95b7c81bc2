package logits

// Portable switches the vector code off until the function that it returns is called.
func Portable() (restore func()) {
	was := useAVX2
	useAVX2 = false
	return func() { useAVX2 = was }
}
