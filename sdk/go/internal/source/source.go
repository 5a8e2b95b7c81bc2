// Package source reads the requests of the kind grammar, for packages grammar and steps.
package source

import "tgi/sdk/go/params"

// Request is the grammar of a request.
type Request struct {
	// Language is one of the languages that the guest registered.
	Language string
	// Source is the grammar.
	Source string
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Read reads the JSON object that abi.Grammar describes. It ignores unknown
// members.
func Read(request []byte) (r Request, err error) {
	in := params.Read(request)
	for key := range in.Object() {
		switch key {
		case "language":
			r.Language = in.String()
		case "source":
			r.Source = in.String()
		case "params":
			r.Params = in.Raw()
		default:
			in.Skip()
		}
	}
	return r, in.Close()
}
