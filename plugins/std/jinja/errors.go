package jinja

import (
	"errors"
	"fmt"
)

// ErrSyntax is what a *SyntaxError wraps: the template cannot be used at all.
var ErrSyntax = errors.New("template syntax")

// ErrRaised marks an error that the template raised itself, by raise_exception.
var ErrRaised = errors.New("raised by the template")

// ErrLimit marks a rendering that was stopped because it used up one of its Limits.
var ErrLimit = errors.New("template limit")

// ErrRender is what every *RenderError wraps: this rendering failed, another may not.
var ErrRender = errors.New("template rendering")

// ErrInput marks values that are not a JSON object, or a conversation that
// cannot be continued.
var ErrInput = errors.New("template input")

// SyntaxError says where a template stops being one. Line and Column count from 1;
// Column counts characters.
type SyntaxError struct {
	Name         string
	Line, Column int
	Msg          string
}

// Error gives name:line:column and jinja2's own message.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Msg)
}

// Unwrap returns ErrSyntax.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// RenderError is an exception of the rendering, with the class and the message
// that Python gives it.
type RenderError struct {
	// Class is Python's name of the exception: UndefinedError, TypeError, ...
	// Limits have the class LimitError.
	Class string
	// Msg is the exception's text.
	Msg string
	// Line of the statement or expression that failed; 0 when unknown.
	Line int
	kind error
}

// Error gives the class, the message and the line.
func (e *RenderError) Error() string {
	if e.Line == 0 {
		return e.Class + ": " + e.Msg
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Class, e.Msg)
}

// Unwrap returns ErrRender and, where they apply, ErrRaised or ErrLimit.
func (e *RenderError) Unwrap() []error {
	if e.kind == nil {
		return []error{ErrRender}
	}
	return []error{ErrRender, e.kind}
}

// raise makes an exception of the given Python class.
func raise(class, format string, args ...any) error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &RenderError{Class: class, Msg: msg}
}

func typeError(format string, args ...any) error  { return raise("TypeError", format, args...) }
func valueError(format string, args ...any) error { return raise("ValueError", format, args...) }

func limitError(format string, args ...any) error {
	return &RenderError{Class: "LimitError", Msg: fmt.Sprintf(format, args...), kind: ErrLimit}
}

// isClass reports whether err is a Python exception of one of the classes.
func isClass(err error, classes ...string) bool {
	var e *RenderError
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range classes {
		if e.Class == c {
			return true
		}
	}
	return false
}

// atLine notes the line of an error that does not know its own.
func atLine(err error, line int) error {
	if err == nil {
		return nil
	}
	return noteLine(err, line)
}

// noteLine stands apart because it allocates, and most calls of atLine have no error.
func noteLine(err error, line int) error {
	var e *RenderError
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}
