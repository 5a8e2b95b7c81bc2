package jinja

import (
	"tgi/plugins/std/jinja/interp"
	"tgi/plugins/std/jinja/syntax"
	"tgi/plugins/std/jinja/value"
)

// What the language's packages declare, under the names of this one.
type (
	// Limits bound one rendering. A zero field means its default.
	Limits = interp.Limits
	// SyntaxError is the position and text of a syntax error.
	SyntaxError = syntax.Error
	// RenderError is an exception of the rendering, with Python's class and text.
	RenderError = value.Exception
)

// The errors that this package's errors wrap.
var (
	// ErrSyntax is what a *SyntaxError wraps: the template cannot be used at all.
	ErrSyntax = syntax.ErrSyntax
	// ErrRender is what every *RenderError wraps: this rendering failed, another may not.
	ErrRender = value.ErrRender
	// ErrRaised marks an error that the template raised itself, by raise_exception.
	ErrRaised = value.ErrRaised
	// ErrLimit marks a rendering that was stopped because it used up one of its Limits.
	ErrLimit = value.ErrLimit
	// ErrInput marks values that are not a JSON object, or a conversation that
	// cannot be continued.
	ErrInput = value.ErrInput
)
