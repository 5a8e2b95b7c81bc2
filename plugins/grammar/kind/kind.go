// Package kind is the host's side of the plugin kind "grammar": a plugin compiles the source of a grammar for package
// grammar, or computes the allowed tokens at every step.
//
// It owns the request in the guest's memory, the result struct, the masks that a stepping guest writes, and the
// validation of all three. Package plugins chooses the plugin and caches the results.
package kind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode/utf8"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Call is what a guest compiles: Language, Source and Params. Its plugin was chosen before.
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

// Dropped is a constraint of the source that the grammar does not enforce.
type Dropped = guest.Dropped

// Compiled is the result of a compilation.
type Compiled struct {
	Grammar *ir.Grammar // checked
	Size    int         // of its encoded form, in bytes
	Form    uint64      // stands for the encoded form within this process
	Dropped []Dropped
}

// forms is the seed of Compiled.Form.
var forms = maphash.MakeSeed()

// compile is the export of a guest that compiles.
const compile = "tgi_grammar_compile"

// Compile lets the guest compile a source, once per session of guest.Open. It does not retain c. If the guest refuses
// the source, or something of the grammar is larger than a limit of package ir, as a literal of the source may be, the
// error is a *guest.Refusal with the text; other errors are a *sandbox.Fault or the pool's.
func Compile(s *guest.Session, c Call) (Compiled, error) {
	request, err := requestOf(c)
	if err != nil {
		return Compiled{}, err
	}
	var out Compiled
	out.Dropped, err = s.Compiled(compile, request, abi.MaxGrammar, func(text []byte) (err error) {
		out.Grammar, err = ir.Read(text)
		out.Size, out.Form = len(text), maphash.Bytes(forms, text)
		if errors.Is(err, ir.ErrLimit) {
			return &guest.TooLarge{Err: err}
		}
		return err
	})
	if err != nil {
		return Compiled{}, err
	}
	return out, nil
}
