// Package check validates a plugin's module and measures it, without a server: [Run] checks it against the rules of
// conformance/guest in the sandbox, as the server would run it, and reports every violation with the export and the
// expected signature; [Bench] measures it call by call.
//
// It owns the bridge from the sandbox to the conformance kit. It knows neither files nor flags: `tgi plugin check` and
// `tgi plugin bench` are built on it.
package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/sandbox"
)

// Case is a configuration and parameters to run the module with; Refused says that it must refuse the parameters.
type Case = kit.Case

// Options say how a module is checked. The zero value checks it with {} for configuration and parameters.
type Options struct {
	Cases    []Case
	Limits   Limits
	CacheDir string // folder for compiled modules; "" keeps nothing on disk
	// Stage is told what is done next of a module that takes seconds; nil is told nothing.
	Stage func(text string)
}

// slowModule is how large, in bytes, a module is that takes seconds, as one of Go does.
const slowModule = 256 << 10

// stages is Stage, of a module that it need not be told of too.
func (o Options) stages(wasm []byte) func(format string, args ...any) {
	if o.Stage == nil || len(wasm) < slowModule {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) { o.Stage(fmt.Sprintf(format, args...)) }
}

// Violation is one broken rule.
type Violation struct {
	Rule   string `json:"rule"`   // its name, as in [Rules]
	Found  string `json:"found"`  // what was found, with export and signature
	Text   string `json:"text"`   // what must hold
	Source string `json:"source"` // where the contract says so: names of sdk/abi
	// Config and Params are what the module ran with, empty for what does not depend on them.
	Config string `json:"config,omitempty"`
	Params string `json:"params,omitempty"`
}

// Report is what a check found.
type Report struct {
	Bytes      int         `json:"bytes"`
	SHA256     string      `json:"sha256"`
	Violations []Violation `json:"violations"` // empty for a sound module
	// Summary is what the module says about itself, nil when it has violations.
	Summary *Summary `json:"summary,omitempty"`
	// States says how what it says of its state was tried, for each configuration and kind; that proves nothing.
	States []kit.StateTrial `json:"states,omitempty"`
}

// Sound reports whether nothing was found.
func (r *Report) Sound() bool { return len(r.Violations) == 0 }

// Rules lists every rule that a [Violation] may name: those of the kit and those of this package.
func Rules() []kit.Rule { return append(slices.Clone(kit.Rules), ruleModule, ruleState, ruleLoad) }

var (
	ruleModule = kit.Rule{
		ID: "module", Text: "the module is WebAssembly core 2.0 (with SIMD) and keeps to the limits",
		Source: "sdk/abi, Form",
	}
	ruleLoad = kit.Rule{
		ID: "load", Source: "sdk/abi, Life",
		Text: fmt.Sprintf("the server loads it within the limits, with a vocabulary of %d tokens", DefaultVocabulary),
	}
	ruleState = kit.Rule{
		ID: "snapshot", Source: "sdk/abi, Life",
		Text: "all state is in memory and numeric globals, so that it can be snapshotted and cloned",
	}
)

// Run checks the module. The report has its violations; the error says why the check could not run: a cancelled ctx,
// limits out of bounds, an unusable cache folder, or a *LanguageError. ctx ends a compilation, not a guest's call,
// which fuel bounds.
func Run(ctx context.Context, name string, wasm []byte, o Options) (*Report, error) {
	sum := sha256.Sum256(wasm)
	r := &Report{Bytes: len(wasm), SHA256: hex.EncodeToString(sum[:]), Violations: []Violation{}}
	engine, err := sandbox.New(sandbox.Config{CacheDir: o.CacheDir})
	if err != nil {
		return nil, err
	}
	if len(o.Cases) == 0 {
		o.Cases = []Case{{}}
	}
	limits, err := LimitsOf(wasm, o.Limits)
	if err != nil {
		return nil, err
	}
	stage := o.stages(wasm)
	stage("compiling %s, %.1f MB", name, float64(len(wasm))/1e6)
	m, err := open(ctx, engine, name, wasm, limits)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if m == nil {
		r.add(ruleModule, err)
		return r, nil
	}
	defer m.close()
	stage("trying %s with %d rules of the contract", name, len(Rules()))
	r.faults(m, err, o.Cases)
	if r.Sound() {
		stage("loading %s with a vocabulary of %d tokens, as a server does", name, DefaultVocabulary)
		r.Summary, err = m.summary(ctx, engine, wasm, o.Cases)
		if language, ok := errors.AsType[*LanguageError](err); ok {
			return nil, language
		}
		if err != nil {
			r.add(ruleLoad, err)
		}
	}
	return r, nil
}

// faults runs all checks; err is why the module could not be compiled.
func (r *Report) faults(m *module, err error, cases []Case) {
	refused := linkFaults(err)
	if err != nil && len(refused) == 0 {
		r.add(ruleModule, err)
	}
	for _, e := range refused {
		rule := "import"
		if errors.Is(e, sandbox.ErrExport) {
			rule = "export"
		}
		r.add(kitRule(rule), e)
	}
	if err == nil && m.code.HiddenState() != "" {
		r.add(ruleState, errors.New(m.code.HiddenState()))
		err = sandbox.ErrHiddenState
	}
	var found []kit.Violation
	if err != nil {
		// Report what can be seen without running it.
		found = slices.DeleteFunc(kit.Run(unloadable{m}),
			func(v kit.Violation) bool { return v.ID == "trap" || v.ID == "import" })
	} else {
		found, r.States = kit.Try(m, cases...)
	}
	for _, v := range found {
		w := Violation{Rule: v.ID, Found: v.Detail, Text: v.Text, Source: v.Source}
		if v.Case != nil {
			w.Config, w.Params = v.Case.Config, v.Case.Params
		}
		r.Violations = append(r.Violations, w)
	}
	for _, v := range m.unseen() {
		if !slices.ContainsFunc(r.Violations, func(w Violation) bool {
			return w.Rule == v.Rule && w.Found == v.Found
		}) {
			r.Violations = append(r.Violations, v)
		}
	}
}

func (r *Report) add(rule kit.Rule, err error) {
	r.Violations = append(r.Violations, Violation{Rule: rule.ID, Found: err.Error(), Text: rule.Text,
		Source: rule.Source})
}
