package toolset

import (
	"fmt"
	"maps"
	"slices"

	"tgi/server/config"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Offer is a tool that a request offers.
type Offer struct {
	// Name is the tool's.
	Name string
	// Raw is the tool as templates read it: {"type":"function","function":{…}}.
	Raw []byte
	// Place leads to it in the request, such as #/tools/0/function.
	Place string
	// Strict: the arguments of calls are held to the schema. Custom: it takes a text.
	Strict, Custom bool
	// NotEnforced says why a custom tool's input is not held to its grammar; empty where it is, or has none.
	NotEnforced string
}

// Set is the tools of one request. The zero value has none.
type Set struct {
	// MaxName bounds the names of tools; 0 is fields.MaxName.
	MaxName int
	// Offers are the tools in their order.
	Offers []Offer
	// Choice is what is demanded of them. Word says that it was a word such as auto.
	Choice generate.ToolChoice
	Word   bool

	names   map[string]bool
	allowed map[string]bool // nil for all
}

// ReadName reads a name that no tool before it has.
func (s *Set) ReadName(r *wire.Reader, dst *string) error {
	name, err := r.String()
	most := s.MaxName
	if most == 0 {
		most = fields.MaxName
	}
	switch {
	case err != nil:
		return err
	case !fields.IsName(name, most):
		return r.Refuse(fmt.Sprintf("invalid value: string %.80q, expected 1 to %d letters, digits, `_`, `-` and `.`",
			name, most))
	case s.names[name]:
		return r.Refuse(fmt.Sprintf("invalid value: string %q, expected a name that no other tool has", name))
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
	*dst = name
	return nil
}

// Choose takes a word for a choice; any other is a tool's name.
func (s *Set) Choose(word string) {
	switch word {
	case "auto":
		s.Choice.Mode = generate.ChooseAuto
	case "none":
		s.Choice.Mode = generate.ChooseNone
	case "required":
		s.Choice.Mode = generate.ChooseRequired
	default:
		s.Choice = generate.ToolChoice{Mode: generate.ChooseNamed, Name: word}
	}
}

// Allow lets the model call the tool of that name, and no other that was not allowed.
func (s *Set) Allow(names ...string) {
	if s.allowed == nil {
		s.allowed = map[string]bool{}
	}
	for _, n := range names {
		s.allowed[n] = true
	}
}

// Customs are the names of the tools that take a text; nil for none.
func (s *Set) Customs() (names map[string]bool) {
	for _, o := range s.Offers {
		if !o.Custom {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		names[o.Name] = true
	}
	return names
}

// Add adds a tool whose name no other has.
func (s *Set) Add(o Offer) {
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[o.Name] = true
	s.Offers = append(s.Offers, o)
}

// Apply checks the choice against the tools, and tells the model of those that
// it may call. One that it may not call is kept from it: a tool that it reads of is
// one that it calls. It may be applied again when tools were added. Errors are *generate.ToolError.
func (s *Set) Apply(c *generate.Conversation) error {
	c.ToolChoice = s.Choice
	c.Tools, c.ToolNames, c.ToolPlaces, c.NotEnforced, c.Strict = nil, nil, nil, nil, false
	if s.Choice.Mode == generate.ChooseNamed && !s.names[s.Choice.Name] {
		return s.none(s.Choice.Name, s.Word)
	}
	for name := range s.allowed {
		if !s.names[name] {
			return s.none(name, false)
		}
	}
	out := []byte{'['}
	for _, o := range s.Offers {
		if s.allowed != nil && !s.allowed[o.Name] {
			continue
		}
		out = append(wire.Comma(out, len(c.ToolNames)), o.Raw...)
		c.ToolNames, c.ToolPlaces = append(c.ToolNames, o.Name), append(c.ToolPlaces, o.Place)
		c.Strict = c.Strict || o.Strict
		if o.NotEnforced != "" {
			c.NotEnforced = append(c.NotEnforced, generate.Dropped{Pointer: o.Place + "/format", Keyword: "grammar",
				Reason: o.NotEnforced})
		}
	}
	if len(c.ToolNames) > 0 {
		c.Tools = append(out, ']')
	} else if c.ToolChoice.Mode == generate.ChooseRequired {
		return &generate.ToolError{Msg: "`tool_choice` asks for a call of a tool, which needs `tools`"}
	}
	return nil
}

// none is about a name that no tool has. A word of tool_choice may have been meant for
// one that says how tools are chosen.
func (s *Set) none(name string, word bool) error {
	known := slices.Sorted(maps.Keys(s.names))
	if word {
		known = append(known, "auto", "none", "required")
	}
	if name == "" {
		return &generate.ToolError{Msg: "`tool_choice` is empty: want \"auto\", \"none\", \"required\" or a tool"}
	}
	near := ""
	if len(name) > 2 && len(name) <= fields.MaxName { // one letter is near every other
		near = config.Suggest(name, known)
	}
	return &generate.ToolError{Msg: fmt.Sprintf("Tool with name %.64s not found%s", name, near)}
}
