package generate

import (
	"errors"
	"fmt"
	"strings"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// What a plugin says of its failure may be anything that it saw, and plugins see what guards take back. So once a text
// with guards has begun, its client is told how a plugin failed, in the server's own words. What has none is not told
// at all: an error of user code that is new here gives nothing away.

// outlined is an error of user code that can be told without the words of a plugin.
type outlined interface{ Outline() string }

// failed is an error of user code in the server's own words.
func failed(format string, args ...any) error { return ownWords(fmt.Sprintf(format, args...)) }

// ownWords wraps llm.ErrPlugin.
type ownWords string

func (w ownWords) Error() string   { return llm.ErrPlugin.Error() + ": " + string(w) }
func (w ownWords) Unwrap() error   { return llm.ErrPlugin }
func (w ownWords) Outline() string { return string(w) }

// runError is an error of a program's run.
type runError struct {
	program string
	err     error
}

func (e *runError) Error() string {
	return fmt.Sprintf("%v: plugin %s: a run of it failed: %s", llm.ErrPlugin, llm.Shorten(e.program),
		strings.TrimPrefix(e.err.Error(), llm.ErrPlugin.Error()+": "))
}
func (e *runError) Unwrap() error { return e.err }
func (e *runError) Outline() string {
	return fmt.Sprintf("plugin %s: a run of it failed; more is in its log", llm.Shorten(e.program))
}

// Concealed is an error of a text that guards read, without the words of plugins. It wraps llm.ErrPlugin, or else an
// *Invalid.
type Concealed struct {
	// Cause is the whole error, for the operator. It is not wrapped.
	Cause error
	shown error
}

// Error is for the client.
func (c *Concealed) Error() string { return c.shown.Error() }

// Unwrap returns what has that text.
func (c *Concealed) Unwrap() error { return c.shown }

// conceal is the package's, where guards read the texts.
func (r *Run) conceal(err error) error {
	if !r.guarded {
		return err
	}
	return conceal(err)
}

// conceal returns err without the words of plugins. Errors of the engine and of contexts have none.
func conceal(err error) error {
	var done *Concealed
	var rule *Invalid
	var dead *sample.DeadEnd // which has no word of a plugin
	var known outlined
	switch {
	case err == nil, errors.As(err, &done), errors.As(err, &dead):
		return err
	case errors.Is(err, llm.ErrInvalid):
		shown := &Invalid{Msg: "what the text is held to cannot be followed any further"}
		if errors.As(err, &rule) {
			shown.Field, shown.TooLong = rule.Field, rule.TooLong
			if rule.Outline != "" {
				shown.Msg = rule.Outline
			}
		}
		return &Concealed{err, shown}
	case !errors.Is(err, llm.ErrPlugin):
		return err
	case errors.As(err, &known):
		return &Concealed{err, failed("%s", known.Outline())}
	case errors.Is(err, sample.ErrNoToken):
		return &Concealed{err, failed("%v", sample.ErrNoToken)}
	}
	return &Concealed{err, failed("the reason may tell of a text that guards read, so the server's log alone has it")}
}
