package plugins

import "tgi/plugins/internal/sandbox"

// Interpreted returns why plugins are interpreted in this process, which takes many times as long; nil where they run
// as machine code.
func Interpreted() error { return sandbox.Interpreted() }
