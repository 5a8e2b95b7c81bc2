// Package kind is the host's side of the plugin kind "grammar": the source of a grammar becomes the form that package grammar
// runs, or a guest says at every step which tokens may come next.
//
// It owns the request in the guest's memory, the result struct, the masks that a stepping guest writes, and the rules that all
// of it is held to. Which plugin is asked, and what is remembered of the answers, is the business of package plugins.
package kind

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// Call is what a guest is asked to compile.
type Call struct {
	Language string
	Source   []byte // UTF-8
	Params   []byte // JSON object; nil means {}
}

// request is the JSON object of abi.Grammar.
func (c Call) request() ([]byte, error) {
	switch {
	case len(c.Source) > abi.MaxSource:
		return nil, &guest.Refusal{Text: fmt.Sprintf("the source has %d bytes, the limit is %d", len(c.Source), abi.MaxSource)}
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
type Dropped struct{ Pointer, Keyword, Reason string }

// Compiled is what a guest made of a source.
type Compiled struct {
	Grammar *ir.Grammar // checked
	Size    int         // of its encoded form, in bytes
	Dropped []Dropped
}

// compile is the export of a guest that compiles.
const compile = "tgi_grammar_compile"

// Compile has the guest compile a source, once in a session that guest.Open gave. Nothing of c is kept. That the guest does
// not take the source is a *guest.Refusal with its words; other errors are a *sandbox.Fault or the pool's.
func Compile(s *guest.Session, c Call) (Compiled, error) {
	request, err := c.request()
	if err != nil {
		return Compiled{}, err
	}
	at, n, err := s.Request(request)
	if err != nil {
		return Compiled{}, err
	}
	result, err := s.Call(compile, at, n)
	if err != nil {
		return Compiled{}, err
	}
	out, refused, err := read(s.Memory(), uint32(result))
	switch {
	case err != nil:
		return Compiled{}, s.Break(compile, err.Error())
	case refused != nil:
		return Compiled{}, s.Refuse(refused)
	}
	return out, nil
}

// read copies a result out of a guest's memory, or gives the text of a guest that refused, in its memory. The error says
// which rule is broken by what.
func read(memory []byte, at uint32) (out Compiled, refused []byte, err error) {
	if at%4 != 0 || uint64(at)+abi.CompiledSize > uint64(len(memory)) {
		return out, nil, fmt.Errorf("result of %d bytes at 0x%x: it is to be aligned to 4, the memory has %d", abi.CompiledSize, at, len(memory))
	}
	field := func(i uint32) uint32 { return binary.LittleEndian.Uint32(memory[at+i:]) }
	status := field(abi.CompiledStatus)
	text, err := part(memory, "text", field(abi.CompiledText), field(abi.CompiledTextBytes), abi.MaxGrammar)
	if err != nil {
		return out, nil, err
	}
	switch {
	case status != abi.StatusOK && status != abi.StatusFailed:
		return out, nil, fmt.Errorf("status %d is neither %d nor %d", status, abi.StatusOK, abi.StatusFailed)
	case status == abi.StatusFailed && len(text) == 0:
		return out, nil, fmt.Errorf("status %d without a text that says why", status)
	case status == abi.StatusFailed:
		return out, text, nil
	}
	notes, err := part(memory, "notes", field(abi.CompiledNotes), field(abi.CompiledNoteBytes), abi.MaxNotes)
	if err != nil {
		return out, nil, err
	}
	if len(notes) > 0 {
		if err := json.Unmarshal(notes, &out.Dropped); err != nil || !utf8.Valid(notes) {
			return out, nil, fmt.Errorf("notes of %d bytes are not a JSON array of objects of strings", len(notes))
		}
	}
	if out.Grammar, err = ir.Read(text); err != nil {
		return out, nil, err
	}
	out.Size = len(text)
	return out, nil, nil
}

// part is a text in a guest's memory.
func part(memory []byte, what string, at, n uint32, most int) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case uint64(at)+uint64(n) > uint64(len(memory)):
		return nil, fmt.Errorf("%s of %d bytes at 0x%x, the memory has %d", what, n, at, len(memory))
	case int64(n) > int64(most):
		return nil, fmt.Errorf("%s of %d bytes, the limit is %d", what, n, most)
	}
	return memory[at:][:n], nil
}
