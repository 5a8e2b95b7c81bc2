// Package grammar is for plugins that compile grammars. The server runs the
// compiled grammar natively.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "dates", Version: "1.0.0"})
//		grammar.Register([]string{"dates"}, func(config []byte) (grammar.Plugin, error) { return dates{}, nil })
//	}
//
//	func main() {}
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. The compilation of each source starts with the
// memory of the snapshot.
//
// If the server's form cannot express a grammar, use package steps to follow it
// step by step. A guest registers only one of the two.
package grammar

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/internal/source"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Request is the grammar of a request.
type Request = source.Request

// Dropped is a part of a source that the grammar does not enforce, with the
// reason. The client gets it.
type Dropped struct{ Pointer, Keyword, Reason string }

// Compiled is a compiled source.
type Compiled struct {
	// Form is the grammar, in the form that plugins/grammar/ir/README.md describes.
	// The subpackage form builds it.
	Form []byte
	// Dropped lists the parts of the source that the grammar does not enforce.
	Dropped []Dropped
}

// Plugin compiles sources. The function given to [Register] makes it. A plugin that
// accepts parameters also has a method Validate(params []byte) error; Request has
// them again. Without this method, requests that have parameters are refused.
type Plugin interface {
	// Compile compiles a source. An error refuses the request, and the client gets
	// its text, which should name the place in the source.
	Compile(r Request) (Compiled, error)
}

// Register makes the guest a grammar plugin for sources in these languages. Call it
// from an init function. The server calls open once with the JSON object of the
// configuration. open must not keep it. An error refuses the plugin.
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

// compile serves one call of the host.
func compile(request []byte) (Compiled, error) {
	r, err := source.Read(request)
	if err != nil {
		return Compiled{}, err
	}
	return current.Compile(r)
}

// notes encodes the list Dropped as JSON. It returns nothing for an empty list.
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
