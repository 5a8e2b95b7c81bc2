// Package plugin has what plugins of every kind share: their description and
// the functions of the server that they may call. Each kind has its own package.
//
// A plugin is a package main. Its init functions register it; main is empty:
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "ban-zero", Version: "1.0.0"})
//		logits.Register(logits.Uses{Modes: []logits.Mode{logits.Deny}}, open)
//	}
//
//	func main() {}
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w -buildid=' -o ban-zero.wasm .
//
// An instance serves one sequence: package variables are the state of that
// sequence and need no lock. Goroutines do not run between calls. The same
// package also compiles natively, so that plugintest can test it.
package plugin

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/host"
	"tgi/sdk/go/internal/registry"
)

// Info describes a plugin to people and to the server.
type Info struct {
	// Name and Version appear in errors, metrics and /info.
	Name, Version string
	// Doc is one or two sentences.
	Doc string
	// Params is a JSON Schema of the parameters, or empty. The server shows it,
	// and checks parameters against it before Begin, which checks the rest.
	Params string
	// Config is true if the plugin reads its configuration. If it is false, the
	// server refuses [plugin.config], which would have no effect.
	Config bool
	// State says what a logits plugin or a sampler keeps of its sequence, so
	// that the server can take it back when a guard rewinds: abi.StateNone,
	// abi.StateTokens or abi.StateLogits. Empty is StateTokens for a logits
	// plugin that reads neither view nor row, otherwise StateLogits.
	State string
}

// Describe sets the description. Call it from an init function.
func Describe(i Info) {
	registry.Describe(registry.Info{Name: i.Name, Version: i.Version, Doc: i.Doc, Params: i.Params, Config: i.Config,
		State: i.State})
}

// Headroom sets how many bytes a sequence can allocate before the heap grows.
// An instance whose heap has grown is not used for another sequence. The
// default of 2 MiB suits plugins that keep a little state; a template needs
// several times the size of a usual conversation. Call Headroom from an init
// function; it takes effect after the configuration has been read. It costs
// address space, not memory.
func Headroom(bytes int) { registry.Headroom = bytes }

// Debug writes to the server's log at level debug. A text is cut at 4 KiB.
func Debug(text string) { host.Current.Log(abi.LevelDebug, text) }

// Inform writes to the server's log at level info.
func Inform(text string) { host.Current.Log(abi.LevelInfo, text) }

// Warn writes to the server's log at level warn.
func Warn(text string) { host.Current.Log(abi.LevelWarn, text) }

// Error writes to the server's log at level error. If the plugin traps, the
// error contains the last line that it logged.
func Error(text string) { host.Current.Log(abi.LevelError, text) }

// VocabSize returns the number of token ids: they are 0 to VocabSize()-1.
func VocabSize() uint32 { return host.Current.VocabSize() }

// TokenBytes returns the bytes that a token stands for, or the text of a
// special token. ok is false if there is no such token. The caller owns the
// slice.
func TokenBytes(id uint32) (b []byte, ok bool) { return host.Current.TokenBytes(id) }

// IsSpecial reports whether a token is markup of the model rather than text.
func IsSpecial(id uint32) bool { return has(id, abi.TokenSpecial) }

// IsEnd reports whether choosing the token ends the sequence.
func IsEnd(id uint32) bool { return has(id, abi.TokenEnd) }

func has(id, bit uint32) bool {
	f, ok := host.Current.TokenFlags(id)
	return ok && f&bit != 0
}

// Encode returns the token ids of a text. It recognises special tokens in the
// text and adds none. ok is false if the text is not UTF-8. The caller owns
// the slice.
func Encode(text string) (ids []uint32, ok bool) { return host.Current.Encode(text) }

// Rand returns 64 random bits. Requests with the same seed get the same bits.
func Rand() uint64 { return host.Current.Rand() }

// RandFloat returns a random number in [0, 1).
func RandFloat() float64 { return float64(Rand()>>11) * 0x1p-53 }
