package value

import (
	"errors"
	"fmt"
)

// ErrRaised marks an error that the template raised itself, by raise_exception.
var ErrRaised = errors.New("raised by the template")

// ErrLimit marks a rendering that was stopped because it used up one of its Limits.
var ErrLimit = errors.New("template limit")

// ErrRender is what every *RenderError wraps: this rendering failed, another may not.
var ErrRender = errors.New("template rendering")

// ErrInput marks values that are not a JSON object, or a conversation that
// cannot be continued.
var ErrInput = errors.New("template input")

// Exception is an exception of the rendering, with Python's class and message
// for it.
type Exception struct {
	// Class is Python's name of the exception: UndefinedError, TypeError, ...
	// Limits have the class LimitError.
	Class string
	// Msg is the exception's text.
	Msg string
	// Line of the statement or expression that failed; 0 when unknown.
	Line int
	kind error
}

// Error returns the class, the message and the line.
func (e *Exception) Error() string {
	if e.Line == 0 {
		return e.Class + ": " + e.Msg
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Class, e.Msg)
}

// Unwrap returns ErrRender and, where they apply, ErrRaised or ErrLimit.
func (e *Exception) Unwrap() []error {
	if e.kind == nil {
		return []error{ErrRender}
	}
	return []error{ErrRender, e.kind}
}

// Raise makes an exception of the given Python class.
func Raise(class, format string, args ...any) error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &Exception{Class: class, Msg: msg}
}

// TypeError is Python's exception of this name.
func TypeError(format string, args ...any) error { return Raise("TypeError", format, args...) }

// ValueError is Python's exception of this name.
func ValueError(format string, args ...any) error { return Raise("ValueError", format, args...) }

// LimitError ends a rendering that used up one of its limits.
func LimitError(format string, args ...any) error {
	return &Exception{Class: "LimitError", Msg: fmt.Sprintf(format, args...), kind: ErrLimit}
}

// Raised is the error of raise_exception.
func Raised(msg string) error { return &Exception{Class: "TemplateError", Msg: msg, kind: ErrRaised} }

// IsClass reports whether err is a Python exception of one of the classes.
func IsClass(err error, classes ...string) bool {
	var e *Exception
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

// AtLine sets the line of an error that has none.
func AtLine(err error, line int) error {
	if err == nil {
		return nil
	}
	return noteLine(err, line)
}

// noteLine is a separate function because it allocates, and most calls of AtLine have no error.
func noteLine(err error, line int) error {
	var e *Exception
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}
