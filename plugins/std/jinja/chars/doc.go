// Package chars is what Python's str knows of single characters: their classes
// (isspace, isdigit, isidentifier ...), their cases (upper, title, casefold ...),
// and how repr quotes them.
package chars
