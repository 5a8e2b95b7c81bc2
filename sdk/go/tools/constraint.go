package tools

import (
	"strconv"
	"unicode/utf8"

	"tgi/sdk/go/internal/registry"
)

// Constrainer is what a [Plugin] may be beside: it says what the text that a
// model writes is held to, so that calls are right as they are written.
type Constrainer interface {
	// Constraint is asked before the first token of a request that demands a call,
	// offers a strict tool, or has an answer, in an instance in which nothing else
	// is called.
	// It may not keep r. An error refuses the request: its text, for the client,
	// says which of the calls that are demanded can't be held to, and why.
	Constraint(r Request) (Constraint, error)
}

// Constraint is a grammar of all that a model writes: free text, reasoning, and
// calls. The zero value holds the text to nothing.
type Constraint struct {
	// Language of Source, one that an installed plugin of kind "grammar" knows,
	// mostly "structural_tag".
	Language string
	// Source is the grammar; empty means that there is nothing to hold to.
	Source string
	// Params is a JSON object for that plugin, or nil.
	Params []byte
	// Optional: the request goes on without the grammar where none can be made
	// of Source.
	Optional bool
	// Answer: a message that is no call is held to the request's Answer. Without it a
	// request that has one is refused.
	Answer bool
	// Reasoning may come first, and Source demands that it ends; nil for none.
	Reasoning *Reasoning
	// Places say what places of Source come from.
	Places []Place
	// Dropped is what the request asks for and the grammar does not enforce: the
	// client is told. Pointers lead into the request.
	Dropped []Dropped
}

// Reasoning is what the model may write before the calls or the answer that the
// request is about. The server ends it where it has taken half of the tokens that
// the message may have: its end may follow anywhere in it.
type Reasoning struct {
	// Open: the message begins inside it.
	Open bool
	// Begin are the texts that begin it, at the message's start.
	Begin []string
	// End are the texts that end it; the server writes the first.
	End []string
}

// Place says what a place of a source comes from.
type Place struct {
	// At is a JSON pointer into the source, as "#/content/json_schema", Pointer
	// one into the request, as "#/tools/0/function/parameters".
	At, Pointer string
	// Tool is the name of the tool that it belongs to.
	Tool string
}

// Dropped is something that a request asks for and that is not enforced.
type Dropped struct{ Pointer, Keyword, Reason string }

// constrain is one call.
func constrain(request []byte) (Constraint, error) {
	if c, ok := current.(Constrainer); ok {
		return c.Constraint(request)
	}
	return Constraint{}, nil
}

// text writes the constraint as the contract has it, nothing where there is none.
func (c *Constraint) text() []byte {
	if c.Source == "" {
		return nil
	}
	b := make([]byte, 0, len(c.Source)+len(c.Source)/4+1024)
	b = registry.AppendString(append(b, `{"language":`...), c.Language)
	b = appendSource(append(b, `,"source":`...), c.Source)
	if len(c.Params) > 0 {
		b = append(append(b, `,"params":`...), c.Params...)
	}
	b = strconv.AppendBool(append(b, `,"optional":`...), c.Optional)
	if c.Answer {
		b = append(b, `,"answer":true`...)
	}
	if r := c.Reasoning; r != nil {
		b = strconv.AppendBool(append(b, `,"reasoning":{"open":`...), r.Open)
		b = appendTexts(append(b, `,"begin":`...), r.Begin)
		b = append(appendTexts(append(b, `,"end":`...), r.End), '}')
	}
	for i, p := range c.Places {
		if i == 0 {
			b = append(b, `,"places":[`...)
		} else {
			b = append(b, ',')
		}
		b = registry.AppendString(append(b, `{"at":`...), p.At)
		b = registry.AppendString(append(b, `,"pointer":`...), p.Pointer)
		b = append(registry.AppendString(append(b, `,"tool":`...), p.Tool), '}')
	}
	if len(c.Places) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendTexts writes an array of texts.
func appendTexts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = registry.AppendString(b, s)
	}
	return append(b, ']')
}

// appendSource quotes a source, which is long, mostly ASCII, and full of quotes.
func appendSource(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return registry.AppendString(b, s)
	}
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if c < ' ' {
			quoted := registry.AppendString(nil, s[i:i+1])
			b = append(b, quoted[1:len(quoted)-1]...)
		} else {
			b = append(b, '\\', c)
		}
	}
	return append(append(b, s[from:]...), '"')
}

// notes writes what was dropped as the contract has it, nothing for none.
func (c *Constraint) notes() (b []byte) {
	for i, d := range c.Dropped {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = registry.AppendString(append(b, `{"pointer":`...), d.Pointer)
		b = registry.AppendString(append(b, `,"keyword":`...), d.Keyword)
		b = append(registry.AppendString(append(b, `,"reason":`...), d.Reason), '}')
	}
	if len(c.Dropped) > 0 {
		b = append(b, ']')
	}
	return b
}
