package tools

import (
	"strconv"
	"unicode/utf8"

	"tgi/sdk/go/internal/registry"
)

// Constrainer is an optional interface of a [Plugin]: it returns a grammar of the
// text that a model may write, so that the model writes only valid calls.
type Constrainer interface {
	// Constraint is called before the first token of a request that requires a
	// call, offers a strict tool, or has an answer, in a separate instance in which
	// nothing else is called.
	// It must not keep r. An error refuses the request. The client gets its text,
	// which says which required calls the plugin cannot constrain, and why.
	Constraint(r Request) (Constraint, error)
}

// Constraint is a grammar of everything that a model writes: free text, reasoning
// and calls. The zero value does not constrain the text.
type Constraint struct {
	// Language of Source: a language of an installed plugin of kind "grammar",
	// usually "structural_tag".
	Language string
	// Source is the grammar. If it is empty, the text is not constrained.
	Source string
	// Params are the parameters of that plugin, a JSON object or nil.
	Params []byte
	// Optional is true if the request continues without a grammar when Source
	// cannot be compiled.
	Optional bool
	// Answer is true if Source constrains a message that is not a call to the
	// request's Answer. If it is false, a request that has one is refused.
	Answer bool
	// Reasoning is reasoning that can come first and that Source requires to end; nil for none.
	Reasoning *Reasoning
	// Places map places in Source to their origin in the request.
	Places []Place
	// Dropped lists the parts of the request that the grammar does not enforce.
	// The client gets this list. Its pointers are into the request.
	Dropped []Dropped
}

// Reasoning is reasoning that the model may write before the required calls or
// answer. The server ends it after half of the tokens that the message may have,
// so its end must be allowed at every point in it.
type Reasoning struct {
	// Open is true if the message begins inside the reasoning.
	Open bool
	// Begin are the texts that begin the reasoning at the start of the message.
	Begin []string
	// End are the texts that end the reasoning. The server writes the first one to end it.
	End []string
}

// Place maps a place in a source to its origin in the request.
type Place struct {
	// At is a JSON pointer into the source, such as "#/content/json_schema". Pointer
	// is one into the request, such as "#/tools/0/function/parameters".
	At, Pointer string
	// Tool is the name of the tool that the place belongs to.
	Tool string
}

// Dropped is a part of a request that is not enforced, with the reason.
type Dropped struct{ Pointer, Keyword, Reason string }

// constrain serves one call of the host.
func constrain(request []byte) (Constraint, error) {
	if c, ok := current.(Constrainer); ok {
		return c.Constraint(request)
	}
	return Constraint{}, nil
}

// text encodes the constraint as JSON. It returns nothing if there is none.
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

// appendTexts appends a JSON array of texts.
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

// appendSource quotes a source fast: it is long, mostly ASCII, and has many quotes.
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

// notes encodes the list Dropped as JSON. It returns nothing for an empty list.
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
