// Package share owns what a plugin is outside of a server: an artefact that any OCI registry keeps, with a manifest, a
// description and the module, and signatures as cosign makes them.
//
// It makes artefacts, checks them, signs them and holds signatures to a policy, all in memory. Package registry moves
// artefacts, package index keeps them on this machine, package install puts them into a server's settings. None of them
// runs a module.
package share
