//go:build !wasip1

package host

// Current is the host of native tests. plugintest sets it.
var Current Host = absent{}

// absent is the host of a plugin that runs natively without a test host.
type absent struct{}

const missing = "no host: call plugintest.New first"

func (absent) Log(uint32, string)               {}
func (absent) VocabSize() uint32                { panic(missing) }
func (absent) TokenBytes(uint32) ([]byte, bool) { panic(missing) }
func (absent) TokenFlags(uint32) (uint32, bool) { panic(missing) }
func (absent) Encode(string) ([]uint32, bool)   { panic(missing) }
func (absent) Rand() uint64                     { panic(missing) }
