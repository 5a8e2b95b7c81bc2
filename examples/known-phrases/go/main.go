// known-phrases: a draft, as ../c/known-phrases.c. It guesses that a text goes on as one of the phrases of the
// request does, where its last tokens stand in the phrase: "phrases" is an array of texts, such as answers that are
// on file.
package main

import (
	"tgi/sdk/go/draft"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

const (
	mostPhrases = 64
	mostTokens  = 8192
	least       = 2
	longest     = 8
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "known-phrases", Version: "1.0.0", Doc: "Guesses that a text goes on as one of the given phrases.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"phrases":{"type":"array","maxItems":64,"items":{"type":"string"}}}}`,
	})
	draft.Register(open)
}

func main() {}

type opened struct{}

func open([]byte) (draft.Plugin, error) { return opened{}, nil }

// Begin implements draft.Plugin.
func (opened) Begin(raw []byte, _ []uint32) (draft.Drafter, error) {
	var list phrases
	used := 0
	r := params.Read(raw)
	for key := range r.Object() {
		if key != "phrases" {
			r.Fail("unknown parameter: " + key)
			continue
		}
		for range r.Array() {
			ids, _ := plugin.Encode(r.String())
			used += len(ids)
			switch {
			case len(list) == mostPhrases:
				r.Fail("phrases: want at most 64")
			case used > mostTokens:
				r.Fail("phrases: want at most 8192 tokens in all")
			default:
				list = append(list, ids)
			}
		}
	}
	return list, r.Close()
}

// phrases are the tokens of each.
type phrases [][]uint32

// Propose implements draft.Drafter.
func (p phrases) Propose(tokens []uint32, _ int, room []uint32) (int, error) {
	best, rest := least-1, []uint32(nil)
	for _, ids := range p {
		for at := least; at < len(ids); at++ {
			if n := same(tokens, ids[:at]); n > best {
				best, rest = n, ids[at:]
			}
		}
	}
	return copy(room, rest), nil
}

// same returns how many tokens before the ends of a and b are equal, at most longest.
func same(a, b []uint32) (n int) {
	for n < min(longest, len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
