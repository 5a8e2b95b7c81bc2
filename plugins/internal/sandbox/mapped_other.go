//go:build !linux

package sandbox

// mapCode leaves the machine code in the memory that the engine read it into.
func (*Engine) mapCode(*compiled, string) error { return nil }
