package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/sdk/abi"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/share"
	"tgi/server/share/install"
)

// errUnsigned: a module has no file beside it with its description and signatures.
var errUnsigned = errors.New("was not signed or installed")

// Show describes what a word means: a plugin that Plugins lists, by its name, a file, or an artefact of the local
// index. A module without a description beside it is loaded, with the settings that cfg has of it, and asked; it is in
// no registry, so it has no digest of an artefact. The error wraps fs.ErrNotExist where there is nothing.
func Show(ctx context.Context, cfg config.Config, policy share.Policy, word string) (share.Shown, error) {
	p, a, from, err := find(cfg, word)
	if errors.Is(err, errUnsigned) {
		return describe(ctx, p, a)
	}
	if err != nil {
		return share.Shown{}, err
	}
	return share.Describe(a, policy, from)
}

// Artifact returns the artefact that a word means, as Show does, with its signatures.
func Artifact(cfg config.Config, word string) (share.Artifact, error) {
	_, a, _, err := find(cfg, word)
	return a, err
}

// find returns what a word means, and where it is from. With errUnsigned the artefact is the plugin's module alone.
func find(cfg config.Config, word string) (p config.Plugin, a share.Artifact, from string, err error) {
	p, err = named(cfg, word)
	if err != nil {
		return p, a, "", err
	}
	if p.Source == "" {
		x, err := install.IndexOf(cfg)
		if err != nil {
			return p, a, "", err
		}
		e, a, err := x.Get(word)
		return p, a, e.Reference, err
	}
	module, err := Module(p.Source)
	if err != nil {
		return p, a, "", err
	}
	if strings.HasPrefix(p.Source, plugins.Builtin) {
		return p, share.Artifact{Module: module}, "", fmt.Errorf("%s %w: it is built into this program", p.Source,
			errUnsigned)
	}
	if a, err = share.ReadBeside(p.Source, module); errors.Is(err, fs.ErrNotExist) {
		return p, share.Artifact{Module: module}, "", fmt.Errorf("%s %w: %s is not there (tgi plugin show describes a "+
			"module)", p.Source, errUnsigned, share.Beside(p.Source))
	}
	return p, a, p.Source, err
}

// named returns the plugin that a word means; one without a source where it means none. A file that cfg declares has
// the settings of that.
func named(cfg config.Config, word string) (config.Plugin, error) {
	list, err := declared(cfg)
	if err != nil {
		return config.Plugin{}, err
	}
	for _, p := range list {
		if p.Name == word {
			return p.Plugin, nil
		}
	}
	if strings.HasSuffix(word, ".wasm") {
		for _, p := range list {
			if !strings.HasPrefix(p.Source, plugins.Builtin) && sameFile(p.Source, word) {
				return p.Plugin, nil
			}
		}
		return config.Plugin{Name: NameOf(word), Source: word}, nil
	}
	name, _, err := builtin(word)
	if err == nil || strings.HasPrefix(word, plugins.Builtin) {
		return config.Plugin{Name: name, Source: plugins.Builtin + name}, err
	}
	return config.Plugin{}, nil
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, other := os.Stat(b)
	return err == nil && other == nil && os.SameFile(x, y)
}

// describe says what a module says about itself.
func describe(ctx context.Context, p config.Plugin, a share.Artifact) (share.Shown, error) {
	d, err := host.DescribeModule(ctx, p, a.Module)
	if err != nil && p.Config == nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (where it wants a configuration, tgi plugin check has --config)", err)
	}
	if err != nil {
		return share.Shown{}, err
	}
	from := p.Source
	if strings.HasPrefix(from, plugins.Builtin) {
		from += ", built into this program"
	}
	return share.Shown{
		Description: share.Description{Name: d.Name, Version: d.Version, Doc: d.Doc, Kinds: d.Kinds, ABI: abi.Version,
			Params: d.Params},
		From: from, SHA256: a.SHA256(), Bytes: len(a.Module), Signers: []string{},
	}, nil
}

// CheckModule holds the file of a module to the contract, as `tgi plugin check` does, with a configuration and with
// parameters that it must accept. What it violates goes to out.
func CheckModule(ctx context.Context, file, language string, c check.Case, out io.Writer) error {
	module, err := check.ReadModule(file)
	if err != nil {
		return err
	}
	limits, err := check.LimitsOf(module, check.Limits{})
	if err != nil {
		return err
	}
	r, err := check.Run(ctx, NameOf(file), module,
		check.Options{Cases: []check.Case{c}, Limits: limits})
	if err != nil || r.Sound() {
		return err
	}
	r.WriteText(out, check.TextOptions{File: file, Limits: limits, Language: language, ParamsGiven: c.Params != "{}"})
	return fmt.Errorf("the module is not loaded: it was checked with --config %s and --params %s", c.Config, c.Params)
}
