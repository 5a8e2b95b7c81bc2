// Package guest holds any plugin module to the rules of the contract in
// sdk/abi. It reports every violation with the rule it breaks and where the
// rule comes from.
//
// The kit does not run WebAssembly: whoever does hands it a [Guest]. It works
// below the SDKs, on exports and memory, so it checks what an SDK does as well.
//
//	for _, v := range guest.Run(module) {
//		t.Error(v)
//	}
package guest

import (
	"fmt"
	"slices"

	"tgi/sdk/abi"
)

// Guest is a plugin module, loaded and not yet instantiated.
type Guest interface {
	// Exports lists the functions that the module exports.
	Exports() []abi.Func
	// Imports lists the functions that it imports.
	Imports() []Import
	// Load instantiates the module with imports answered by h and calls
	// "_initialize" if there is one. It does not take a snapshot: the first
	// Fork does.
	Load(h Host) (Instance, error)
}

// Import is a function that a module imports.
type Import struct {
	Module string
	abi.Func
}

// Instance is an instantiated module. It is used from one goroutine.
type Instance interface {
	// Call calls an export. A trap, used-up fuel and the like are errors. An
	// i32 stands in the low half of its value; without a result it is 0.
	Call(export string, args ...uint64) (uint64, error)
	// Memory is a view of the memory, nil if it is not exported. It ends with
	// the next Call.
	Memory() []byte
	// Fork makes an instance that equals this one as it is now, memory and
	// globals, and goes its own way from here: what the server does when a
	// sequence begins (from the snapshot after tgi_init) and when one is cloned.
	Fork() (Instance, error)
	// Close gives the instance back. It is not used after that.
	Close()
}

// Host answers the imports of module "tgi"; sdk/abi describes them. The kit
// implements it, see [World].
type Host interface {
	Log(level uint32, text string)
	VocabSize() uint32
	// TokenBytes and TokenFlags: ok is false where there is no such token.
	TokenBytes(id uint32) (b []byte, ok bool)
	TokenFlags(id uint32) (flags uint32, ok bool)
	// Encode: ok is false where text is not UTF-8.
	Encode(text string) (ids []uint32, ok bool)
	Rand() uint64
}

// Case is a configuration and parameters to run a guest with. Empty strings
// stand for {}.
type Case struct {
	Config, Params string
	// Refused says that the guest must refuse the parameters.
	Refused bool
	// Texts are what a model may write, beside the kit's own, for a guest of
	// kind tools.
	Texts []string
	// Sources are grammars beside the kit's own, for a guest of kind grammar.
	Sources []Source
}

// Violation is one broken rule.
type Violation struct {
	Rule
	// Case is what the guest ran with; nil for what does not depend on it.
	Case *Case
	// Detail says what was found.
	Detail string
}

// String is one line for a test's report.
func (v Violation) String() string {
	s := fmt.Sprintf("%s: %s (%s; %s)", v.ID, v.Detail, v.Text, v.Source)
	if v.Case != nil {
		s += fmt.Sprintf(" with config %q and parameters %q", v.Case.Config, v.Case.Params)
	}
	return s
}

// run collects violations.
type run struct {
	guest Guest
	found []Violation
	now   *Case
	seen  map[string]bool
	// trials are those of what the description says of state.
	trials []StateTrial
}

// report notes a violation; one rule is reported once for each case and detail.
func (r *run) report(id, format string, args ...any) {
	v := Violation{Rule: ruleByID(id), Case: r.now, Detail: fmt.Sprintf(format, args...)}
	if key := v.String(); !r.seen[key] {
		r.seen[key] = true
		r.found = append(r.found, v)
	}
}

// Run checks every rule and returns what was broken, nothing for a sound
// guest. Without cases it runs the guest with {} for both.
func Run(g Guest, cases ...Case) []Violation {
	found, _ := Try(g, cases...)
	return found
}

// Try is Run. It tells how the guest's word on its state was tried, too, which no test can prove.
func Try(g Guest, cases ...Case) ([]Violation, []StateTrial) {
	r := &run{guest: g, seen: map[string]bool{}}
	r.all(cases)
	return r.found, r.trials
}

// all checks every rule.
func (r *run) all(cases []Case) {
	r.signatures()
	if len(r.found) > 0 {
		return // calls would fail for the reasons just given
	}
	if len(cases) == 0 {
		cases = []Case{{}}
	}
	d := r.describe()
	if d == nil {
		return
	}
	if r.kinds(d); len(r.found) > 0 {
		return // what the description names can't be called
	}
	r.room()
	r.anyBytes(d, withDefaults(cases[0]).Config)
	if len(r.found) > 0 {
		return
	}
	more := paramSets(d.Params)
	for _, c := range cases {
		c := withDefaults(c)
		r.now = &c
		if c.Refused {
			r.oneCase(d, nil)
			continue
		}
		r.oneCase(d, slices.DeleteFunc(slices.Clone(more), func(set string) bool { return set == c.Params }))
		more = nil // once is enough
	}
}

func withDefaults(c Case) Case {
	if c.Config == "" {
		c.Config = "{}"
	}
	if c.Params == "" {
		c.Params = "{}"
	}
	return c
}
