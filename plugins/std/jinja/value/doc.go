// Package value has Python's values for templates: their types, operators,
// iteration, reprs and exceptions, with Python's own error texts. Values are
// immutable, except namespaces and iterators.
//
// A [Str] records for every byte whether it came from the template or from the
// request, and every operation keeps this record. Operations charge their cost to
// the [Thread] of the rendering, whose limits stop templates that loop for too
// long or build values that are too large.
package value
