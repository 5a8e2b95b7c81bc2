// Package syntax reads templates: the lexer, the nodes of the tree, and the
// parser. It follows jinja2's own with trim_blocks and lstrip_blocks on, loop
// controls and {% generation %}, and refuses what they refuse with their texts. It
// knows nothing of values, scopes or the names of filters: package interp does.
package syntax
