package syntax

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrSyntax is what an *Error wraps: the template cannot be used at all.
var ErrSyntax = errors.New("template syntax")

// Error is a syntax error with its position. Line and Column count from 1;
// Column counts characters.
type Error struct {
	Name         string
	Line, Column int
	Msg          string
}

// Error gives name:line:column and jinja2's own message.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Msg)
}

// Unwrap returns ErrSyntax.
func (e *Error) Unwrap() error { return ErrSyntax }

// Errorf places a message at a byte offset of the source.
func Errorf(name, src string, offset int, format string, args ...any) *Error {
	offset = min(offset, len(src))
	line := strings.Count(src[:offset], "\n") + 1
	start := strings.LastIndexByte(src[:offset], '\n') + 1
	return &Error{
		Name: name, Line: line, Column: utf8.RuneCountInString(src[start:offset]) + 1,
		Msg: fmt.Sprintf(format, args...),
	}
}
