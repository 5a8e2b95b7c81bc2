// Package share goes the way of a shared plugin with real programs: a new project is built, signed and pushed to the
// registry of the distribution project, and a second server installs and uses it. Then the ways in which that must
// fail. `make test-share` installs the registry and sets TGI_REGISTRY to it.
package share
