package guest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"tgi/sdk/abi"
)

// signatures checks what can be seen without running the guest.
func (r *run) signatures() {
	exports := map[string]abi.Func{}
	for _, f := range r.guest.Exports() {
		exports[f.Name] = f
	}
	if _, ok := exports[abi.Marker]; !ok {
		r.report("marker", "export %s is missing", abi.Common[0])
	}
	r.wanted(exports, abi.Common[1:])
	known := slices.Concat(abi.Common, abi.Logits, abi.Sampler, abi.Template, abi.Tools, abi.ToolsOptional, abi.Grammar,
		abi.GrammarSteps, abi.Guard, abi.Program, abi.Draft)
	for name := range exports {
		if strings.HasPrefix(name, abi.ReservedPrefix) && !slices.ContainsFunc(known, func(f abi.Func) bool {
			return f.Name == name
		}) {
			r.report("export-unknown", "export %s is not part of version %d", exports[name], abi.Version)
		}
	}
	for _, i := range r.guest.Imports() {
		r.imported(i)
	}
}

func (r *run) imported(i Import) {
	switch i.Module {
	case abi.WASIModule:
		return
	case abi.ImportModule:
		for _, f := range slices.Concat(abi.Imports, abi.ProgramImports) {
			if f.Name == i.Name {
				if f.String() != i.Func.String() {
					r.report("import", "%s.%s, want %s", i.Module, i.Func, f)
				}
				return
			}
		}
	}
	r.report("import", "%s.%s is not to be had", i.Module, i.Func)
}

func (r *run) wanted(exports map[string]abi.Func, want []abi.Func) {
	for _, f := range want {
		got, ok := exports[f.Name]
		if !ok {
			r.report("export", "%s is missing", f)
		} else if got.String() != f.String() {
			r.report("export", "%s, want %s", got, f)
		}
	}
}

// Description is what tgi_describe returns, decoded.
type Description struct {
	Name, Version, Doc  string
	Kinds, Modes, Needs []string
	Candidates          int
	Languages           []string
	Params              json.RawMessage
	Guard               struct {
		Hold, Every int
		Verdicts    []string
	}
	State string

	// TopK is the number in "topk:N", 0 without; Row says whether "row" is needed.
	TopK int  `json:"-"`
	Row  bool `json:"-"`
}

// Kinds are the kinds of this version, in the order in which the kit runs them.
var Kinds = []string{abi.KindLogits, abi.KindSampler, abi.KindTemplate, abi.KindTools, abi.KindGrammar,
	abi.KindGuard, abi.KindProgram, abi.KindDraft}

func (d *Description) serves(kind string) bool { return slices.Contains(d.Kinds, kind) }

// describe returns nil when there is no description to go on with.
func (r *run) describe() *Description {
	in, ok := r.load()
	if !ok {
		return nil
	}
	defer in.Close()
	text, ok := in.text("tgi_describe", abi.MaxDescription)
	if !ok {
		return nil
	}
	if again, ok := in.text("tgi_describe", abi.MaxDescription); ok && again != text {
		r.report("describe-same", "first %q, then %q", text, again)
	}
	d := &Description{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		r.report("describe", "%v in %q", err, text)
		return nil
	}
	if d.Name == "" {
		r.report("describe", "it has no name")
		return nil
	}
	if len(d.Kinds) == 0 {
		r.report("registered", "no kind is registered")
		return nil
	}
	r.values(d)
	return d
}

// guardValues checks "guard" and "state", and sets the default of the latter.
func (r *run) guardValues(d *Description) {
	g := &d.Guard
	switch {
	case !d.serves(abi.KindGuard):
	case g.Hold < 1 || g.Hold > abi.MaxHold:
		r.report("describe-values", "a guard with hold %d, want 1 to %d", g.Hold, abi.MaxHold)
	case g.Every < 0 || g.Every > g.Hold:
		r.report("describe-values", "a guard with every %d, want 1 to its hold, %d", g.Every, g.Hold)
	}
	for _, v := range g.Verdicts {
		if !slices.Contains(abi.VerdictNames[:], v) {
			r.report("describe-values", "verdict %q, want one of %q", v, abi.VerdictNames)
		}
	}
	if d.serves(abi.KindGuard) && (d.serves(abi.KindLogits) || d.serves(abi.KindSampler)) {
		r.report("describe-values", "kinds %q: a guard is a module of its own", d.Kinds)
	}
	switch d.State {
	case "":
		d.State = abi.StateTokens
		if len(d.Needs) > 0 || d.serves(abi.KindSampler) {
			d.State = abi.StateLogits
		}
	case abi.StateNone, abi.StateTokens, abi.StateLogits:
	default:
		r.report("describe-values", "state %q", d.State)
	}
}

func (r *run) values(d *Description) {
	for _, k := range d.Kinds {
		if abi.Exports(k) == nil {
			r.report("describe-values", "kind %q", k)
		}
	}
	for _, m := range d.Modes {
		if !slices.Contains(abi.ModeNames[:], m) && m != abi.NameStop && m != abi.NameForce &&
			m != abi.NameTemperature && m != abi.NameSteps {
			r.report("describe-values", "mode %q", m)
		}
	}
	r.guardValues(d)
	if d.serves(abi.KindDraft) && (d.serves(abi.KindLogits) || d.serves(abi.KindSampler) || d.serves(abi.KindGuard)) {
		r.report("describe-values", "kinds %q: a draft is a module of its own", d.Kinds)
	}
	for _, n := range d.Needs {
		digits, topk := strings.CutPrefix(n, abi.NeedsTopK)
		switch v, err := strconv.ParseUint(digits, 10, 32); {
		case n == abi.NeedsRow:
			d.Row = true
		case !topk || err != nil || v < 1 || v > abi.MaxView:
			r.report("describe-values", "needs %q", n)
		default:
			d.TopK = int(v)
		}
	}
	if slices.Contains(d.Modes, abi.ModeNames[abi.ModeRow]) && !d.Row {
		r.report("describe-values", "mode row without needs row")
	}
	if slices.Contains(d.Modes, abi.ModeNames[abi.ModeView]) && d.TopK == 0 {
		r.report("describe-values", "mode topk without needs topk:N")
	}
	if n := len(d.Languages); d.serves(abi.KindGrammar) && (n < 1 || n > abi.MaxLanguages) {
		r.report("describe-values", "%d languages, want 1 to %d", n, abi.MaxLanguages)
	}
	for _, l := range d.Languages {
		if d.serves(abi.KindGrammar) && (l == "" || len(l) > abi.MaxLanguage) {
			r.report("describe-values", "language %.80q", l)
		}
	}
	if slices.Contains(d.Modes, abi.NameSteps) && !d.serves(abi.KindGrammar) {
		r.report("describe-values", "mode %s without kind %s", abi.NameSteps, abi.KindGrammar)
	}
	if d.Candidates < 0 || d.Candidates > abi.MaxCandidates {
		r.report("describe-values", "candidates %d, want at most %d", d.Candidates, abi.MaxCandidates)
	}
}

// kinds checks the exports of the kinds that the description names.
func (r *run) kinds(d *Description) {
	exports := map[string]abi.Func{}
	for _, f := range r.guest.Exports() {
		exports[f.Name] = f
	}
	for _, kind := range Kinds {
		form := d.form(kind)
		switch {
		case !d.serves(kind):
		case !slices.ContainsFunc(slices.Concat(abi.Forms(kind)...), func(f abi.Func) bool {
			_, ok := exports[f.Name]
			return ok
		}):
			r.report("registered", "kind %q is described and not registered: none of its exports is there", kind)
		default:
			r.wanted(exports, form)
		}
		for _, f := range slices.Concat(abi.Forms(kind)...) {
			if _, ok := exports[f.Name]; !ok || d.serves(kind) && slices.ContainsFunc(form, func(g abi.Func) bool {
				return g.Name == f.Name
			}) {
				continue
			}
			if d.serves(kind) {
				r.report("export-unknown", "%s, but modes is %q", f, d.Modes)
			} else {
				r.report("export-unknown", "%s, but kinds lacks %q", f, kind)
			}
		}
		for _, f := range abi.Optional(kind) {
			if _, ok := exports[f.Name]; ok && d.serves(kind) {
				r.wanted(exports, []abi.Func{f})
			} else if ok {
				r.report("export-unknown", "%s, but kinds lacks %q", f, kind)
			}
		}
	}
}
