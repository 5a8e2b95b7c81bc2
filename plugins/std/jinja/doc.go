// Package jinja renders the chat templates that Hugging Face models carry,
// byte for byte as Python's transformers does with jinja2: trim_blocks and
// lstrip_blocks, loop controls, {% generation %}, the immutable sandbox, the
// tojson, raise_exception and strftime_now of transformers, and Python's own
// strings, numbers, lists and dicts.
//
// It owns three things. The language: lexer, parser and the scoping rules,
// which follow jinja2's idtracking so that a name means what it means there.
// The values: Python's types with Python's operators, methods, reprs and error
// texts. And provenance: every byte of a string knows whether it came from the
// template or from the request, through concatenation, slicing, filters and
// methods, so that the caller can keep a user's text from becoming special
// tokens.
//
// Nothing here reads the clock, the network or files, starts goroutines or
// uses reflection; a rendering is a function of its input. Work is bounded by
// [Limits]. A [Template] is immutable once parsed and may be rendered from
// several goroutines at once.
package jinja
