// Package interp compiles templates and runs them. Scopes follow jinja2's
// idtracking, so that a name means what it means there: the compiler ties each name
// of the tree to a slot, and the nodes that it makes evaluate themselves.
package interp
