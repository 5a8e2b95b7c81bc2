// Package format is Python's three ways to format text: the operator % of strings,
// str.format with its specifications, and strftime.
package format
