// Package std holds the built-in plugins as the modules that the server loads:
// `source = "builtin:NAME"` in tgi.toml means NAME.wasm here. They are built
// from the Rust crates beside this file with `make plugins-update`, and are
// ordinary plugins: they run in the same sandbox, under the same limits.
package std

import (
	"embed"
	"io/fs"
)

//go:embed wasm/*.wasm
var modules embed.FS

// FS returns the modules, NAME.wasm for plugin NAME at its root.
func FS() fs.FS {
	sub, err := fs.Sub(modules, "wasm")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return sub
}
