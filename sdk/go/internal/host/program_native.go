//go:build !wasip1

package host

// CurrentProgram is the host of programs in native tests. plugintest sets it.
var CurrentProgram Program
