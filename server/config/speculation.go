package config

import (
	"fmt"
	"slices"
	"strconv"
)

// Speculation says which tokens are guessed, so that a step of the model may give a sequence several. Guesses change
// no text.
type Speculation struct {
	// Kinds are where guesses come from, of SpeculationKinds; none, and no Model, turns it off.
	Kinds []string `toml:"kinds"`
	// Tokens are guessed for a sequence in a step at most; 0 turns it off.
	Tokens int `toml:"tokens"`
	// Model names a second, smaller model with the same tokenizer that guesses where none of Kinds does; empty for
	// none.
	Model string `toml:"model"`
	// Jump says what becomes of text that a grammar leaves no choice about: JumpVerify has the model cut it into
	// tokens, JumpForce takes those of the tokenizer.
	Jump string `toml:"jump"`
	// Always computes every guess, also where the times of steps say that it costs more than it saves.
	Always bool `toml:"always"`
}

// SpeculationKinds are the values of Speculation.Kinds.
var SpeculationKinds = []string{"grammar", "plugin", "prediction", "draft", "prompt"}

// Values of Speculation.Jump.
const (
	JumpVerify = "verify"
	JumpForce  = "force"
)

// MaxSpeculation bounds Speculation.Tokens.
const MaxSpeculation = 32

func defaultSpeculation() Speculation {
	return Speculation{Kinds: slices.Clone(SpeculationKinds), Tokens: 7, Jump: JumpVerify}
}

// Limit returns how many tokens are guessed at most; 0 is off.
func (s *Speculation) Limit() int {
	if len(s.Kinds) == 0 && s.Model == "" {
		return 0
	}
	return s.Tokens
}

func (s *Speculation) validate(v *verdict, at string) {
	v.between(at+"tokens", s.Tokens, 0, MaxSpeculation)
	v.oneOf(at+"jump", s.Jump, JumpVerify, JumpForce)
	if s.Model != "" {
		v.id(at+"model", s.Model)
	}
	for i, k := range s.Kinds {
		v.oneOf(fmt.Sprintf("%skinds[%d]", at, i), k, SpeculationKinds...)
		v.check(!slices.Contains(s.Kinds[:i], k), "%skinds[%d] must not be there twice, given %q", at, i, trim(k))
	}
}

// speculate is TGI's --speculate N: prompt lookup of N tokens, beside what else is set; 0 turns everything off.
type speculate struct{ of *Speculation }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s speculate) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("%q is no whole number", text)
	}
	s.of.Tokens = n
	if n > 0 && !slices.Contains(s.of.Kinds, "prompt") {
		s.of.Kinds = append(slices.Clone(s.of.Kinds), "prompt")
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s speculate) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(s.of.Limit())), nil }
