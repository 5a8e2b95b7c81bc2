// Package pylib has the library of Python and jinja2 for templates: filters, tests,
// global functions, and the attributes and methods of values that jinja2's
// immutable sandbox allows.
package pylib
