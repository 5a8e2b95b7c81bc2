package guest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// kinds are those of this version.
var kinds = []string{abi.KindLogits, abi.KindSampler, abi.KindTemplate, abi.KindTools, abi.KindGrammar,
	abi.KindGuard, abi.KindProgram, abi.KindDraft}

// checkExports finds all errors of a module's exports that are visible without running it: a kind of
// which one export is there must be there as a whole, and nothing else may begin with tgi_.
func checkExports(m *sandbox.Module) error {
	want := requiredExports(abi.Common)
	known := map[string]bool{abi.Memory: true}
	for _, f := range abi.Common {
		known[f.Name] = true
	}
	for _, k := range kinds {
		for _, list := range abi.Forms(k) {
			for _, f := range list {
				known[f.Name] = true
			}
			if slices.ContainsFunc(list, func(f abi.Func) bool { return m.Has(f.Name) }) {
				want = append(want, requiredExports(list)...)
			}
		}
		for _, f := range abi.Optional(k) {
			known[f.Name] = true
			want = append(want, sandbox.Export{Name: f.Name, Sig: Signature(f), Optional: true})
		}
	}
	want = append(want, sandbox.Export{Name: abi.Initialize, Optional: true})
	if v := markedVersion(m); v > abi.Version && !m.Has(abi.Marker) {
		return fmt.Errorf("%w %s%d: the module is of version %d of the contract, and this host has version %d: it needs a "+
			"newer host", sandbox.ErrExport, abi.MarkerPrefix, v, v, abi.Version)
	}
	errs := []error{m.Check(want)}
	others := m.Others()
	if others[abi.Memory] != "memory" {
		errs = append(errs, fmt.Errorf("%w %q is missing, a memory wanted", sandbox.ErrExport, abi.Memory))
	}
	var names []string
	for name := range m.Exports() {
		names = append(names, name)
	}
	for name := range others {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, abi.ReservedPrefix) && !known[name] {
			errs = append(errs, fmt.Errorf("%w %q is not part of version %d: names that begin with %s are reserved; it is misspelt, or it needs "+
				"a newer host: this one has revision %d", sandbox.ErrExport, name, abi.Version, abi.ReservedPrefix,
				abi.Revision))
		}
	}
	return errors.Join(errs...)
}

// markedVersion is the greatest version of the contract that a module says it follows, 0 for none.
func markedVersion(m *sandbox.Module) (version int) {
	for name := range m.Exports() {
		if digits, ok := strings.CutPrefix(name, abi.MarkerPrefix); ok {
			if v, err := strconv.Atoi(digits); err == nil {
				version = max(version, v)
			}
		}
	}
	return version
}

// explainImports says of functions of the contract that are not there that they may be in a newer one.
func explainImports(err error) error {
	var no *sandbox.NotOffered
	if errors.As(err, &no) && no.Module == abi.ImportModule {
		return fmt.Errorf("%w: it is misspelt, of another kind, or it needs a newer host: this one has version %d, revision "+
			"%d", err, abi.Version, abi.Revision)
	}
	return err
}

// checkKinds compares exports and description.
func checkKinds(m *sandbox.Module, d Description) error {
	var errs []error
	for _, k := range kinds {
		forms := abi.Forms(k)
		form := 0
		if k == abi.KindGrammar && d.Steps() {
			form = 1
		}
		for i, list := range forms {
			if d.Serves(k) && i == form {
				if !slices.ContainsFunc(slices.Concat(forms...), func(f abi.Func) bool { return m.Has(f.Name) }) {
					errs = append(errs,
						fmt.Errorf("%w: kind %q is described and not registered: none of its exports is there",
							ErrDescription, k))
					continue
				}
				errs = append(errs, m.Check(requiredExports(list)))
				continue
			}
			for _, f := range list {
				if m.Has(f.Name) {
					errs = append(errs, fmt.Errorf("%w: %s is exported, but %s", ErrDescription, f.Name,
						d.unexpectedReason(k)))
					break
				}
			}
		}
		for _, f := range abi.Optional(k) {
			if m.Has(f.Name) && !d.Serves(k) {
				errs = append(errs, fmt.Errorf("%w: %s is exported, but %s", ErrDescription, f.Name,
					d.unexpectedReason(k)))
			}
		}
	}
	return errors.Join(errs...)
}

// unexpectedReason says why the description does not allow an export.
func (d Description) unexpectedReason(kind string) string {
	switch {
	case !d.Serves(kind):
		return fmt.Sprintf("kinds lacks %q", kind)
	case d.Steps():
		return fmt.Sprintf("modes has %q, for which there are other exports", abi.NameSteps)
	}
	return fmt.Sprintf("modes lacks %q", abi.NameSteps)
}

// requiredExports converts functions of the contract to what the sandbox checks.
func requiredExports(list []abi.Func) (out []sandbox.Export) {
	for _, f := range list {
		out = append(out, sandbox.Export{Name: f.Name, Sig: Signature(f)})
	}
	return out
}

// Signature returns a function's type as the sandbox writes it.
func Signature(f abi.Func) sandbox.Signature {
	letter := map[abi.Type]string{abi.I32: "i", abi.I64: "I", abi.F32: "f", abi.F64: "F"}
	short := ""
	for _, p := range f.Params {
		short += letter[p]
	}
	short += ":"
	for _, r := range f.Results {
		short += letter[r]
	}
	return sandbox.Sig(short)
}
