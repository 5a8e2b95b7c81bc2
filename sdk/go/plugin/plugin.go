// Package plugin is what plugins of every kind share: their description and
// what they may ask of the server. Packages logits and sampler hold the kinds.
//
// A plugin is a package main whose init functions register it; main is empty:
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
// sequence, and no lock is ever needed. Goroutines make no progress between
// calls. Natively the same package compiles and is tested with plugintest.
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
	// Params is a JSON Schema of the parameters, or empty. The server shows it
	// and does not check it: that is what Begin is for.
	Params string
	// Config says that the plugin reads its configuration. The server refuses
	// [plugin.config] for one that does not: what nobody reads has no effect.
	Config bool
}

// Describe sets the description. Call it from an init function.
func Describe(i Info) {
	registry.Describe(registry.Info{Name: i.Name, Version: i.Version, Doc: i.Doc, Params: i.Params, Config: i.Config})
}

// Headroom says how many bytes a sequence may allocate before the heap must
// grow, which costs the instance: one that grew serves no second sequence. The
// default of 2 MiB suits plugins that keep a little state; a template needs
// several times the size of the conversations that are common. It takes effect
// when the configuration has been read; call it from an init function. The
// price is address space, not memory.
func Headroom(bytes int) { registry.Headroom = bytes }

// Debug writes to the server's log. Text beyond 4 KiB is cut.
func Debug(text string) { host.Current.Log(abi.LevelDebug, text) }

// Inform writes to the server's log at level info.
func Inform(text string) { host.Current.Log(abi.LevelInfo, text) }

// Warn writes to the server's log at level warn.
func Warn(text string) { host.Current.Log(abi.LevelWarn, text) }

// Error writes to the server's log at level error. The last line logged stands
// in the fault when the plugin traps.
func Error(text string) { host.Current.Log(abi.LevelError, text) }

// VocabSize is the number of token ids, 0 to VocabSize()-1.
func VocabSize() uint32 { return host.Current.VocabSize() }

// TokenBytes returns the bytes that a token stands for; of a special token,
// its text. ok is false where there is no such token. The slice is the
// caller's.
func TokenBytes(id uint32) (b []byte, ok bool) { return host.Current.TokenBytes(id) }

// IsSpecial reports whether a token is markup of the model and not text.
func IsSpecial(id uint32) bool { return has(id, abi.TokenSpecial) }

// IsEnd reports whether choosing the token ends the sequence.
func IsEnd(id uint32) bool { return has(id, abi.TokenEnd) }

func has(id, bit uint32) bool {
	f, ok := host.Current.TokenFlags(id)
	return ok && f&bit != 0
}

// Encode returns the token ids of a text; special tokens in it are recognised,
// none are added. ok is false where the text is not UTF-8. The slice is the
// caller's.
func Encode(text string) (ids []uint32, ok bool) { return host.Current.Encode(text) }

// Rand returns 64 random bits: the same for the same seed of the request.
func Rand() uint64 { return host.Current.Rand() }

// RandFloat returns a random number from 0 to below 1.
func RandFloat() float64 { return float64(Rand()>>11) * 0x1p-53 }
