package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// Constraint is the source of a grammar for the model's text. Without a Source the text is not constrained.
type Constraint struct {
	Language string
	Source   string
	Params   []byte // JSON object, or nil
	Optional bool   // the request goes on without it where it can't be compiled
	Answer   bool   // a text that is no call is held to the request's answer
	Places   []Place
	Dropped  []Dropped
	// Reasoning may come first, and the grammar demands that it ends; nil for none.
	Reasoning *Reasoning
}

// Reasoning is what a model may write before its answer or calls. The grammar ends it at the first End.
type Reasoning struct {
	Open       bool // the text begins inside it
	Begin, End []string
}

// Place maps a part of a source to the request: JSON pointers into both, and the name of a tool.
type Place struct{ At, Pointer, Tool string }

// Dropped is something that a request asks for and that its text is not held to. Pointer leads into the request.
type Dropped = guest.Dropped

// constraint is the export that a guest may do without.
const constraint = "tgi_tools_constraint"

// Constrains reports whether a guest has constraints.
func Constrains(g *guest.Guest) bool { return g.Has(constraint) }

// Constrain asks the guest for the constraint of a request, in a session of its own of guest.Open. request and params
// are those of Begin. It returns the zero value if the guest has none. If the guest can't enforce the request, or the
// constraint passes a bound, the error is a *guest.Refusal with the text; other errors are a *sandbox.Fault or the
// pool's.
func Constrain(s *guest.Session, request, params []byte) (Constraint, error) {
	if !Constrains(s.Guest()) {
		return Constraint{}, nil
	}
	var out Constraint
	dropped, err := s.Compiled(constraint, guest.WithMember(request, "params", params), abi.MaxConstraint,
		func(text []byte) (err error) {
			out, err = readConstraint(text)
			return err
		})
	if err != nil {
		return Constraint{}, err
	}
	out.Dropped = dropped
	return out, nil
}

// readConstraint reads the text of a result, the JSON object of abi.ToolsOptional or nothing.
func readConstraint(text []byte) (Constraint, error) {
	switch {
	case len(text) == 0:
		return Constraint{}, nil
	case !utf8.Valid(text):
		return Constraint{}, fmt.Errorf("text of %d bytes is not UTF-8", len(text))
	}
	return parseConstraint(text)
}

// parseConstraint reads the JSON object.
func parseConstraint(text []byte) (out Constraint, err error) {
	var j struct {
		Language, Source string
		Params           json.RawMessage
		Optional, Answer bool
		Places           []Place
		Reasoning        *Reasoning
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return out, fmt.Errorf("text of %d bytes: %w", len(text), err)
	}
	switch {
	case j.Language == "" || len(j.Language) > abi.MaxLanguage:
		return out, fmt.Errorf("language %.80q: want 1 to %d bytes", j.Language, abi.MaxLanguage)
	case j.Source == "":
		return out, fmt.Errorf("source of 0 bytes, want 1 to %d", abi.MaxSource)
	case len(j.Source) > abi.MaxSource:
		return out, &guest.TooLarge{Err: fmt.Errorf("compiled, it has a source of %d bytes, the limit is %d",
			len(j.Source), abi.MaxSource)}
	case len(j.Places) > abi.MaxPlaces:
		return out, &guest.TooLarge{Err: fmt.Errorf("compiled, it has %d places, the limit is %d", len(j.Places),
			abi.MaxPlaces)}
	}
	for _, p := range j.Places {
		if !strings.HasPrefix(p.At, "#") || !strings.HasPrefix(p.Pointer, "#") {
			return out, fmt.Errorf("place %.80q is %.80q, want both to begin with #", p.At, p.Pointer)
		}
	}
	if err := j.Reasoning.check(); err != nil {
		return out, err
	}
	if string(j.Params) == "null" {
		j.Params = nil
	}
	if len(j.Params) > 0 && j.Params[0] != '{' {
		return out, fmt.Errorf("params of %d bytes are not a JSON object", len(j.Params))
	}
	return Constraint{Language: j.Language, Source: j.Source, Params: j.Params, Optional: j.Optional, Answer: j.Answer,
		Places: j.Places, Reasoning: j.Reasoning}, nil
}

// check says what is wrong with the markers of reasoning.
func (r *Reasoning) check() error {
	if r == nil {
		return nil
	}
	if len(r.End) == 0 || !r.Open && len(r.Begin) == 0 {
		return errors.New("reasoning has no text that begins or ends it")
	}
	for _, list := range [][]string{r.Begin, r.End} {
		if len(list) > abi.MaxMarks {
			return fmt.Errorf("reasoning has %d texts that begin or end it, the limit is %d", len(list), abi.MaxMarks)
		}
		for _, m := range list {
			if m == "" || len(m) > abi.MaxName {
				return fmt.Errorf("reasoning has a text of %d bytes that begins or ends it, want from 1 to %d", len(m),
					abi.MaxName)
			}
		}
	}
	return nil
}

// Client says a text that begins with a place of the source, or is one, in the terms of the request. tool is the one
// that it is about, "" where none is known.
func (c *Constraint) Client(text string) (said, tool string) {
	best := -1
	for i, p := range c.Places {
		rest, ok := strings.CutPrefix(text, p.At)
		if ok && (rest == "" || rest[0] == '/' || rest[0] == ':') && (best < 0 || len(p.At) > len(c.Places[best].At)) {
			best = i
		}
	}
	if best < 0 {
		return text, ""
	}
	p := c.Places[best]
	return p.Pointer + text[len(p.At):], p.Tool
}
