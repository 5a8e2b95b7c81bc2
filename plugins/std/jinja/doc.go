// Package jinja renders the chat templates that Hugging Face models carry,
// byte for byte as Python's transformers does with jinja2: trim_blocks and
// lstrip_blocks, loop controls, {% generation %}, the immutable sandbox, the
// tojson, raise_exception and strftime_now of transformers, and Python's own
// strings, numbers, lists and dicts.
//
// The language is in the packages below: syntax reads a template, interp compiles
// and runs it, value holds Python's values, format and pylib Python's library,
// and chars what Python knows of characters. This package is what transformers,
// vLLM and TGI do around a template: the variables of a chat ([Template.RenderChat]),
// the forms of messages that a template reads, and tools ([Model]).
//
// Every byte of a string knows whether it came from the template or from the
// request, so that the caller can keep a user's text from becoming special tokens.
//
// Nothing here reads the clock, the network or files, starts goroutines or
// uses reflection; a rendering is a function of its input. Work is bounded by
// [Limits]. A [Template] is immutable once parsed and may be rendered from
// several goroutines at once.
package jinja
