package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/sandbox/rewrite"
	"tgi/sdk/abi"
)

// module is a module of the sandbox as the kit wants it: a kit.Guest.
type module struct {
	code    *sandbox.Module // nil when it could not be compiled
	limits  Limits
	memory  bool // one is exported as "memory"
	imports []kit.Import
	exports []abi.Func
	loaded  []*instance // of Load, to be closed with the module
}

// open decodes and compiles a module. A nil module was not even decoded; one with an error can't be run.
func open(ctx context.Context, e *sandbox.Engine, name string, wasm []byte, limits Limits) (*module, error) {
	bounds := sandbox.Limits{MemoryPages: int(limits.Memory / pageBytes)}
	_, info, err := rewrite.Rewrite(wasm, bounds)
	if err != nil {
		return nil, err
	}
	m := &module{limits: limits}
	for _, i := range info.Imports {
		if i.Kind == rewrite.KindFunc {
			m.imports = append(m.imports, kit.Import{Module: i.Module, Func: function(i.Name, i.Sig)})
		}
	}
	for _, x := range info.Exports {
		switch {
		case x.Kind == rewrite.KindFunc:
			m.exports = append(m.exports, function(x.Name, x.Sig))
		case x.Kind == rewrite.KindMemory && x.Name == abi.Memory:
			m.memory = true
		}
	}
	m.code, err = e.Compile(ctx, wasm, sandbox.ModuleConfig{
		Name: name, Limits: bounds, Host: hostFuncs(), Start: limits.Load(),
		Exports: []sandbox.Export{{Name: abi.Initialize, Optional: true}},
	})
	if errors.Is(err, sandbox.ErrModule) {
		err = errors.New(strings.TrimPrefix(err.Error(), name+": "+sandbox.ErrModule.Error()+": "))
	}
	return m, err
}

// function is a function in the words of sdk/abi; both encode types as the binary format does.
func function(name string, sig rewrite.Signature) abi.Func {
	types := func(ts []rewrite.ValueType) (out []abi.Type) {
		for _, t := range ts {
			out = append(out, abi.Type(t))
		}
		return out
	}
	return abi.Func{Name: name, Params: types(sig.Params), Results: types(sig.Results)}
}

// linkFaults splits the error of a compilation into those of single imports and exports.
func linkFaults(err error) (list []error) {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, linkFaults(inner)...)
		}
		return list
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner != sandbox.ErrImport && inner != sandbox.ErrExport {
			return linkFaults(inner)
		}
		return []error{err}
	}
	return nil
}

// unseen lists the faults that the exports alone show and that the kit, which needs a description to find them, may
// have missed. Their texts are the kit's.
func (m *module) unseen() (list []Violation) {
	add := func(id, format string, args ...any) {
		r := kitRule(id)
		list = append(list, Violation{Rule: id, Found: fmt.Sprintf(format, args...), Text: r.Text, Source: r.Source})
	}
	if !m.memory {
		add("memory", "there is none")
	}
	for _, kind := range kit.Kinds {
		of := func(f abi.Func) bool { return strings.HasPrefix(f.Name, abi.ReservedPrefix+kind+"_") }
		if !slices.ContainsFunc(m.exports, of) {
			continue
		}
		form := abi.Exports(kind)
		if kind == abi.KindGrammar && !slices.ContainsFunc(m.exports,
			func(f abi.Func) bool { return f.Name == form[0].Name }) {
			form = abi.GrammarSteps
		}
		for _, want := range form {
			i := slices.IndexFunc(m.exports, func(f abi.Func) bool { return f.Name == want.Name })
			if i < 0 {
				add("export", "%s is missing", want)
			} else if got := m.exports[i]; got.String() != want.String() {
				add("export", "%s, want %s", got, want)
			}
		}
	}
	return list
}

func kitRule(id string) kit.Rule {
	i := slices.IndexFunc(kit.Rules, func(r kit.Rule) bool { return r.ID == id })
	if i < 0 {
		panic("BUG: the kit has no rule " + id)
	}
	return kit.Rules[i]
}

// Exports implements kit.Guest.
func (m *module) Exports() []abi.Func { return m.exports }

// Imports implements kit.Guest.
func (m *module) Imports() []kit.Import { return m.imports }

// close frees everything, instances that were left open included.
func (m *module) close() {
	for _, in := range m.loaded {
		in.end()
	}
	if m.code != nil {
		m.code.Close()
	}
}

// errNotCompiled keeps the kit from running a module.
var errNotCompiled = errors.New("the module can't be run")

// unloadable is a module of which only imports and exports can be seen.
type unloadable struct{ *module }

// Load implements kit.Guest.
func (unloadable) Load(kit.Host) (kit.Instance, error) { return nil, errNotCompiled }
