// Package pylib is Python's and jinja2's library for templates: filters, tests,
// global functions, and the attributes and methods of values under jinja2's
// immutable sandbox.
package pylib
