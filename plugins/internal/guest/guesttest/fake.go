// Package guesttest makes guests for tests: tiny modules assembled by hand, of which every export can be replaced, and
// the example guests of the SDKs; and it lets the kit in conformance/guest drive a guest over this host's imports.
package guesttest

import (
	"slices"
	"strconv"
	"strings"

	"tgi/sdk/abi"
)

// Addresses in a fake's memory. What lies from Free to Heap is the test's.
const (
	StepAt = 0x400  // the step struct
	TextAt = 0x1000 // the description
	Free   = 0x4000
	Heap   = 0x8000 // where tgi_alloc begins
)

// Fake is a guest that does nothing but what it is told to. The zero value serves kind logits and declares every mode.
type Fake struct {
	Description string          // "" means AllModes
	Code        map[string]Code // bodies by export; missing ones answer 0, or what the contract calls success
	Drop        []string        // exports that are left out
	Extra       []abi.Func      // further exports, whose bodies are in Code, or other signatures of the usual ones
	Data        map[uint32]string
	HideMemory  bool
	Pages       uint32     // of memory; 0 means 16. It can grow to four times that
	Imports     []string   // names from abi.Imports; their indices for [Call] are in the order of that list
	Foreign     []abi.Func // further imports from module "tgi", after those
	Table       bool       // there is a table of one function, for [SetTable]
}

// AllModes is a description with everything in it.
const AllModes = `{"name":"fake","version":"1","config":true,"kinds":["logits"],"needs":["topk:4","row"],
"modes":["allow","deny","sparse","bitmask","topk","row","stop","force","temperature"]}`

// Ahead is a description of a guest that looks at no logits.
const Ahead = `{"name":"fake","version":"1","config":true,"kinds":["logits"],
"modes":["allow","deny","sparse","bitmask","stop","force","temperature"]}`

// Both is a description of both kinds.
const Both = `{"name":"fake","version":"1","config":true,"kinds":["logits","sampler"],"modes":["deny"],"candidates":8}`

// Template and Tools are descriptions of the kinds on conversations.
const (
	Template = `{"name":"fake","version":"1","config":true,"kinds":["template"]}`
	Tools    = `{"name":"fake","version":"1","config":true,"kinds":["tools"]}`
)

// Grammar and Steps are descriptions of a guest that compiles grammars, and of one that computes masks.
const (
	Grammar = `{"name":"fake","version":"1","config":true,"kinds":["grammar"],"languages":["mine","yours"]}`
	Steps   = `{"name":"fake","version":"1","config":true,"kinds":["grammar"],"modes":["steps"],"languages":["count"]}`
)

// has reports whether the exports of a kind are there: those that the description names, and of the others those of the
// zero value.
func (f Fake) has(kind string) bool {
	named := func(k string) bool { return strings.Contains(f.Description, strconv.Quote(k)) }
	return named(kind) || kind == abi.KindLogits && !named(abi.KindTemplate) && !named(abi.KindTools) &&
		!named(abi.KindGrammar) && !named(abi.KindGuard) && !named(abi.KindDraft)
}

// Wasm assembles the module.
func (f Fake) Wasm() []byte {
	if f.Description == "" {
		f.Description = AllModes
	}
	pages := max(f.Pages, 1)
	if f.Pages == 0 {
		pages = 16
	}
	m := module{pages: pages, most: 4 * pages, heap: Heap, hideMemory: f.HideMemory, table: f.Table}
	m.data = append(m.data, segment{TextAt, f.Description})
	for at, text := range f.Data {
		m.data = append(m.data, segment{at, text})
	}
	for _, i := range abi.Imports {
		if slices.Contains(f.Imports, i.Name) {
			m.imports = append(m.imports, function{Func: i})
		}
	}
	for _, i := range f.Foreign {
		m.imports = append(m.imports, function{Func: i})
	}
	usual := map[string]Code{
		// top = (top+15)&-16; result top; top += size
		"tgi_alloc": Join(Code{0x23, 0}, Const(15), Code{0x6a}, Const(0xfffffff0), Code{0x71, 0x24, 0, 0x23, 0},
			Code{0x23, 0}, Arg(0), Code{0x6a, 0x24, 0}),
		"tgi_describe":    Long(abi.Pack(TextAt, uint32(len(f.Description)))),
		"tgi_logits_step": Const(StepAt),
		"tgi_guard_step":  Const(StepAt),
	}
	for _, kind := range []string{"", abi.KindLogits, abi.KindSampler, abi.KindTemplate, abi.KindTools,
		abi.KindGrammar, abi.KindGuard, abi.KindDraft} {
		list := abi.Exports(kind)
		switch {
		case kind == "":
			list = abi.Common
		case kind == abi.KindGrammar && strings.Contains(f.Description, strconv.Quote(abi.NameSteps)):
			list = abi.GrammarSteps
		}
		for _, fn := range list {
			code, given := f.Code[fn.Name]
			if i := slices.IndexFunc(f.Extra, func(x abi.Func) bool { return x.Name == fn.Name }); i >= 0 {
				fn = f.Extra[i]
			} else if kind != "" && !given && !f.has(kind) {
				continue
			}
			m.add(fn, code, usual[fn.Name], f.Drop)
		}
	}
	for _, fn := range abi.Optional(abi.KindTools) {
		if code, given := f.Code[fn.Name]; given && !slices.ContainsFunc(f.Extra, func(x abi.Func) bool {
			return x.Name == fn.Name
		}) {
			m.add(fn, code, nil, f.Drop)
		}
	}
	for _, x := range f.Extra {
		if !slices.ContainsFunc(m.funcs, func(g function) bool { return g.Name == x.Name }) {
			m.add(x, f.Code[x.Name], nil, f.Drop)
		}
	}
	return m.bytes()
}

// add adds a function. Without code it answers 0 to whatever it is asked.
func (m *module) add(f abi.Func, code, usual Code, drop []string) {
	if slices.Contains(drop, f.Name) {
		return
	}
	if code == nil {
		code = usual
	}
	if code == nil && len(f.Results) > 0 {
		code = Const(0)
		if f.Results[0] == abi.I64 {
			code = Long(0)
		}
	}
	m.funcs = append(m.funcs, function{f, code})
}
