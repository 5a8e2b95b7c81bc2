//go:build !amd64

package logits

// Portable does nothing: there is no vector code here.
func Portable() (restore func()) { return func() {} }
