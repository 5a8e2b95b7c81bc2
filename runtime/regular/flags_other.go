//go:build !unix

package regular

// NoLink is not known on such systems.
const NoLink = 0

// noWait is not known on such systems.
const noWait = 0
