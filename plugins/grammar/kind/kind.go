// Package kind is the host's side of the plugin kind "grammar": the source of a grammar becomes the form that package
// grammar runs, or a guest says at every step which tokens may come next.
//
// It owns the request in the guest's memory, the result struct, the masks that a stepping guest writes, and the rules
// that all of it is held to. Which plugin is asked, and what is remembered of the answers, is the business of package
// plugins.
package kind

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Call is what a guest is asked to compile: Language, Source and Params, the guest's plugin is chosen.
type Call = llm.GrammarCall

// requestOf is the JSON object of abi.Grammar.
func requestOf(c Call) ([]byte, error) {
	switch {
	case len(c.Source) > abi.MaxSource:
		return nil, &guest.Refusal{Text: fmt.Sprintf("the source has %d bytes, the limit is %d", len(c.Source),
			abi.MaxSource)}
	case !utf8.Valid(c.Source):
		return nil, &guest.Refusal{Text: "the source is not UTF-8"}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"language": c.Language, "source": string(c.Source)}); err != nil {
		return nil, err
	}
	return guest.WithMember(b.Bytes(), "params", c.Params), nil
}

// Dropped is something that the source asks for and that the grammar does not enforce.
type Dropped = guest.Dropped

// Compiled is what a guest made of a source.
type Compiled struct {
	Grammar *ir.Grammar // checked
	Size    int         // of its encoded form, in bytes
	Dropped []Dropped
}

// compile is the export of a guest that compiles.
const compile = "tgi_grammar_compile"

// Compile has the guest compile a source, once in a session that guest.Open gave. Nothing of c is kept. That the guest
// does not take the source is a *guest.Refusal with its words; other errors are a *sandbox.Fault or the pool's.
func Compile(s *guest.Session, c Call) (Compiled, error) {
	request, err := requestOf(c)
	if err != nil {
		return Compiled{}, err
	}
	var out Compiled
	out.Dropped, err = s.Compiled(compile, request, abi.MaxGrammar, func(text []byte) (err error) {
		out.Grammar, err = ir.Read(text)
		out.Size = len(text)
		return err
	})
	if err != nil {
		return Compiled{}, err
	}
	return out, nil
}
