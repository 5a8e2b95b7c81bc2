// Command thinkthenanswer lets the model think for "budget" tokens (default 64). Where it has not come to "end" by
// then, it is told that the time is up. Then it answers. All of it goes out as it comes; where the request has a
// grammar, the thoughts are free and stay here, and the answer that the grammar holds goes out. Without "end" that is
// "</think>"; a model that has no token for it marks no thoughts, and answers as ever.
package main

import (
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/program"
)

func init() {
	plugin.Describe(plugin.Info{Name: "think-then-answer", Version: "1.0.0",
		Doc: "Lets the model think within a budget of tokens, and answer then.",
		Params: `{"type":"object","properties":{"budget":{"type":"integer","minimum":1,"maximum":100000},` +
			`"end":{"type":"string"},"hint":{"type":"string"}}}`})
	program.Register(program.Uses{Contexts: 1}, program.Always(think{}))
}

func main() {}

type think struct{}

type settings struct {
	budget    int
	end, hint string
}

// Validate checks the parameters.
func (think) Validate(raw []byte) error {
	_, err := read(raw)
	return err
}

func read(raw []byte) (settings, error) {
	s := settings{64, "", "\nTime is up.\n"}
	if len(raw) == 0 {
		return s, nil
	}
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "budget":
			if s.budget = int(r.Uint()); s.budget < 1 || s.budget > 100000 {
				r.Fail("budget: want a whole number from 1 to 100000")
			}
		case "end":
			s.end = textOf(r)
		case "hint":
			s.hint = textOf(r)
		default:
			r.Fail("unknown parameter, want budget, end or hint")
		}
	}
	return s, r.Close()
}

func textOf(r *params.Reader) string {
	text := r.String()
	if text == "" {
		r.Fail("end, hint: want a text")
	}
	return text
}

// Run implements program.Plugin.
func (think) Run(r *program.Request) error {
	s, err := read(r.Params)
	if err != nil {
		return err
	}
	c, shown, called := r.Context, !r.HasGrammar, false
	if s.end == "" {
		s.end = "</think>"
		if mark, _ := plugin.Encode(s.end); shown && len(mark) != 1 {
			return program.Generate(program.With().Emit(), c)
		}
	}
	if err := program.Generate(s.thoughts(shown).MaxTokens(s.budget), c); err != nil {
		return err
	}
	if shown { // nothing is put into a call of a tool
		if called, err = c.FinishCall(s.thoughts(shown)); err != nil {
			return err
		}
	}
	switch reason := c.Span().Reason; {
	case reason == program.End && shown:
		return nil // it answered without an end of its thoughts
	case called: // it goes on with its answer
	case reason != program.Stopped:
		if err := s.interrupt(c, reason, shown); err != nil {
			return err
		}
	}
	return program.Generate(program.With().Emit(), c)
}

// thoughts are the settings of the runs that think.
func (s settings) thoughts(shown bool) *program.Settings {
	set := program.With().Free().Stop(s.end)
	if shown {
		set.Emit()
	}
	return set
}

// interrupt ends the thoughts that the model did not end itself.
func (s settings) interrupt(c *program.Context, reason program.Reason, shown bool) error {
	from := c.Len()
	if reason == program.Length {
		if err := c.Append(s.hint); err != nil {
			return err
		}
	}
	// The end may be a special token; it is a client's word about its own reply.
	if err := c.AppendSpecial(s.end); err != nil || !shown {
		return err
	}
	return c.EmitFrom(from)
}
