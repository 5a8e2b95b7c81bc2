package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/sdk/abi"
	"tgi/server/share"
)

// builtin reads the module that is built in under a name, with or without builtin: before it. The error wraps
// fs.ErrNotExist where there is none.
func builtin(word string) (name string, module []byte, err error) {
	name = strings.TrimPrefix(word, plugins.Builtin)
	module, err = fs.ReadFile(std.FS(), name+".wasm")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		err = fmt.Errorf("there is no built-in plugin %q: %w", name, fs.ErrNotExist)
	}
	return name, module, err
}

// Module reads a module: a file, or with builtin: before its name one that is built in.
func Module(word string) ([]byte, error) {
	if strings.HasPrefix(word, plugins.Builtin) {
		_, module, err := builtin(word)
		return module, err
	}
	return check.ReadModule(word)
}

// ShowBuiltin describes a module that is built in. It is in no registry: it has no digest of an artefact.
func ShowBuiltin(ctx context.Context, word string) (share.Shown, error) {
	name, module, err := builtin(word)
	if err != nil {
		return share.Shown{}, err
	}
	r, err := check.Run(ctx, name, module, check.Options{})
	if err != nil {
		return share.Shown{}, err
	}
	d := r.Summary
	a, err := share.Pack(module, share.Description{Name: d.Name, Version: d.Version, Doc: d.Doc, Kinds: d.Kinds,
		ABI: abi.Version, Params: d.Params})
	if err != nil {
		return share.Shown{}, err
	}
	shown, err := share.Describe(a, share.Policy{}, plugins.Builtin+name+", built into this program")
	shown.Digest = ""
	return shown, err
}
