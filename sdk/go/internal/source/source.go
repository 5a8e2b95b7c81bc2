// Package source reads what both forms of the kind grammar are asked.
package source

import "tgi/sdk/go/params"

// Request is a grammar that a request brings.
type Request struct {
	// Language is one of those that the guest said it knows.
	Language string
	// Source is the grammar.
	Source string
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Read reads the JSON object that abi.Grammar describes. Members that it does not
// know are passed over.
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
