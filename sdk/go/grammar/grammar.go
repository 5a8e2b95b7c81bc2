// Package grammar is the kind of plugin that compiles grammars: the server runs
// what it returns, at its own speed.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "dates", Version: "1.0.0"})
//		grammar.Register([]string{"dates"}, func(config []byte) (grammar.Plugin, error) { return dates{}, nil })
//	}
//
//	func main() {}
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. Each source is compiled in memory that is as it
// was in the snapshot.
//
// What no grammar of the server's form can express is followed step by step by a
// plugin of package steps. A guest has one of both.
package grammar

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/source"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Request is a grammar that a request brings.
type Request = source.Request

// Dropped is something that a source asks for and that the grammar does not
// enforce: the client is told.
type Dropped struct{ Pointer, Keyword, Reason string }

// Compiled is what becomes of a source.
type Compiled struct {
	// Form is the grammar, in the form that plugins/grammar/ir/README.md describes;
	// package form below this one puts it together.
	Form []byte
	// Dropped is what the grammar does not enforce.
	Dropped []Dropped
}

// Plugin is what the function given to [Register] makes. One that takes
// parameters of requests has a method Validate(params []byte) error too; they
// come again in the request. Without it a request that has any is refused.
type Plugin interface {
	// Compile returns the grammar of a source. An error refuses the request, and
	// its text, best with the place in the source, goes to the client.
	Compile(r Request) (Compiled, error)
}

// Register makes the guest a grammar plugin for sources in the languages. Call it
// from an init function; open gets the JSON object of the plugin's configuration,
// which it may not keep. An error refuses the plugin.
func Register(languages []string, open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindGrammar, Languages: languages,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: func(params []byte, _ []uint32) error { return registry.Validate(current, params) },
	})
}

// current is the plugin of this instance.
var current Plugin

// compile is one call.
func compile(request []byte) (Compiled, error) {
	r, err := source.Read(request)
	if err != nil {
		return Compiled{}, err
	}
	return current.Compile(r)
}

// notes writes what was dropped as the contract has it, nothing for none.
func notes(list []Dropped) (b []byte) {
	for i, d := range list {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = registry.AppendString(append(b, `{"pointer":`...), d.Pointer)
		b = registry.AppendString(append(b, `,"keyword":`...), d.Keyword)
		b = append(registry.AppendString(append(b, `,"reason":`...), d.Reason), '}')
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}
