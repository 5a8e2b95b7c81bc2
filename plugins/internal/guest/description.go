package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tgi/plugins/internal/schema"
	"tgi/sdk/abi"
)

// Description is what a guest says of itself, checked against sdk/abi.
type Description struct {
	Name, Version, Doc string
	Kinds              []string // abi.KindLogits ...
	Modes              []string // declared outputs, see abi.ModeNames
	View               int      // N of "topk:N", at most the vocabulary; 0: needs no view
	Row                bool     // needs the row
	Candidates         int      // of a sampler: the most it wants, at most the vocabulary; 0 for others
	Languages          []string // that a grammar's sources may be in
	Contexts           int      // of a program: the most that run at once; 0 for others
	Params             json.RawMessage
	Schema             *schema.Schema // of Params; nil where there is none
	Config             bool           // it reads its configuration
	Guard              Guard
	State              string // abi.StateNone ...
}

// Guard is what a guest of kind guard may do.
type Guard struct {
	Hold, Every int
	Verdicts    []string // beside release
}

// Gives reports whether the guard declared a verdict.
func (g Guard) Gives(verdict uint32) bool {
	return verdict == abi.VerdictRelease || slices.Contains(g.Verdicts, abi.VerdictNames[verdict])
}

// Serves reports whether the guest serves a kind.
func (d Description) Serves(kind string) bool { return slices.Contains(d.Kinds, kind) }

// worksOnChats reports whether the guest serves a kind that works on conversations.
func (d Description) worksOnChats() bool { return slices.ContainsFunc(d.Kinds, Converses) }

// Steps reports whether the guest computes the masks of a grammar itself.
func (d Description) Steps() bool { return d.Serves(abi.KindGrammar) && d.Declares(abi.NameSteps) }

// Declares reports whether the guest declared an output.
func (d Description) Declares(name string) bool { return slices.Contains(d.Modes, name) }

// maxDescribed bounds the name and the version of a plugin, which logs and lists show.
const maxDescribed = 128

// parse reads and checks a description; the error matches ErrDescription and names all that is wrong.
func parse(text []byte, vocab int) (Description, error) {
	var j struct {
		Name, Version, Doc  string
		Kinds, Modes, Needs []string
		Languages           []string
		Candidates          int
		Contexts            int
		Params              json.RawMessage
		Config              bool
		Guard               Guard
		State               string
		Revision            int
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return Description{}, fmt.Errorf("%w: %w", ErrDescription, err)
	}
	if name := twice(text); name != "" {
		return Description{}, fmt.Errorf("%w: member %.64q is there twice", ErrDescription, name)
	}
	d := Description{Name: j.Name, Version: j.Version, Doc: j.Doc, Kinds: j.Kinds, Modes: j.Modes, Params: j.Params,
		Config: j.Config, Guard: j.Guard, State: j.State}
	if j.Revision < 0 || j.Revision > abi.Revision {
		return Description{}, fmt.Errorf("%w: the module needs revision %d of version %d of the contract, and this host has "+
			"revision %d: it needs a newer host", ErrDescription, j.Revision, abi.Version, abi.Revision)
	}
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrDescription}, args...)...))
	}
	if j.Name == "" {
		fault("name is missing")
	}
	for _, text := range []struct{ key, value string }{{"name", j.Name}, {"version", j.Version}} {
		if len(text.value) > maxDescribed || strings.ContainsFunc(text.value, func(r rune) bool {
			return !unicode.IsPrint(r)
		}) {
			fault("%s %.80q is not up to %d bytes of printable characters", text.key, text.value, maxDescribed)
		}
	}
	if len(j.Kinds) == 0 {
		fault("no kind is registered")
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{"kind", j.Kinds}, {"mode", j.Modes}, {"need", j.Needs}, {"language", j.Languages},
		{"guard: verdict", j.Guard.Verdicts}} {
		for i, name := range list.names {
			if slices.Contains(list.names[:i], name) {
				fault("%s %.64q is there twice", list.what, name)
				break
			}
		}
	}
	for _, k := range j.Kinds {
		if abi.Exports(k) == nil {
			fault("kind %q is not one of version %d: it is misspelt, or it needs a newer host than revision %d", k,
				abi.Version, abi.Revision)
		}
	}
	for _, m := range j.Modes {
		if !slices.Contains(abi.ModeNames[:], m) && m != abi.NameStop && m != abi.NameForce &&
			m != abi.NameTemperature && m != abi.NameSteps {
			fault("mode %q is not one of version %d: it is misspelt, or it needs a newer host than revision %d", m,
				abi.Version, abi.Revision)
		}
	}
	for _, n := range j.Needs {
		if err := d.addNeed(n); err != nil {
			errs = append(errs, err)
		}
	}
	if d.Declares(abi.ModeNames[abi.ModeRow]) && !d.Row {
		fault("mode %q wants %q among its needs", abi.ModeNames[abi.ModeRow], abi.NeedsRow)
	}
	if d.Declares(abi.ModeNames[abi.ModeView]) && d.View == 0 {
		fault("mode %q wants %q among its needs", abi.ModeNames[abi.ModeView], abi.NeedsTopK+"N")
	}
	if d.Serves(abi.KindGrammar) {
		d.Languages = j.Languages
		if n := len(d.Languages); n < 1 || n > abi.MaxLanguages {
			fault("%d languages are not from 1 to %d", n, abi.MaxLanguages)
		}
		for _, l := range d.Languages {
			if l == "" || len(l) > abi.MaxLanguage {
				fault("language %.80q has not from 1 to %d bytes", l, abi.MaxLanguage)
			}
		}
	} else if d.Declares(abi.NameSteps) {
		fault("mode %q is for kind %q", abi.NameSteps, abi.KindGrammar)
	}
	if j.Candidates < 0 || j.Candidates > abi.MaxCandidates {
		fault("candidates %d is not from 0 to %d", j.Candidates, abi.MaxCandidates)
	}
	d.checkGuard(fault)
	d.checkState(fault)
	if len(j.Params) > 0 {
		var err error
		if d.Schema, err = schema.Compile(j.Params); err != nil {
			fault("params, the JSON Schema of the parameters: %w", err)
		}
	}
	if d.Serves(abi.KindProgram) {
		if d.Contexts = j.Contexts; d.Contexts == 0 {
			d.Contexts = abi.DefaultContexts
		}
		if d.Contexts < 1 || d.Contexts > abi.MaxContexts {
			fault("contexts %d is not from 1 to %d", d.Contexts, abi.MaxContexts)
		}
	}
	if d.Serves(abi.KindDraft) && slices.ContainsFunc(d.Kinds, func(k string) bool {
		return Steps(k) && k != abi.KindDraft
	}) {
		fault("kinds %q: what guesses changes no text, so it is a module of its own", d.Kinds)
	}
	d.View = min(d.View, vocab)
	if d.Candidates = j.Candidates; d.Candidates == 0 {
		d.Candidates = abi.DefaultCandidates
	}
	if d.Candidates = min(d.Candidates, vocab); !d.Serves(abi.KindSampler) {
		d.Candidates = 0
	}
	return d, errors.Join(errs...)
}

// checkGuard checks the member "guard", and sets its defaults.
func (d *Description) checkGuard(fault func(string, ...any)) {
	g := &d.Guard
	if !d.Serves(abi.KindGuard) {
		if g.Hold != 0 || g.Every != 0 || len(g.Verdicts) > 0 {
			fault("guard is for kind %q", abi.KindGuard)
		}
		return
	}
	if d.Serves(abi.KindLogits) || d.Serves(abi.KindSampler) {
		fault("kinds %q: a guard keeps what it knows where the others are taken back, so it is a module of its own",
			d.Kinds)
	}
	if g.Every == 0 {
		g.Every = 1
	}
	if g.Hold < 1 || g.Hold > abi.MaxHold {
		fault("guard: hold %d is not from 1 to %d", g.Hold, abi.MaxHold)
	} else if g.Every < 1 || g.Every > g.Hold {
		fault("guard: every %d is not from 1 to hold, %d", g.Every, g.Hold)
	}
	for _, v := range g.Verdicts {
		if !slices.Contains(abi.VerdictNames[:], v) {
			fault("guard: verdict %q is none of %q", v, abi.VerdictNames)
		}
	}
}

// checkState checks the member "state", and sets its default.
func (d *Description) checkState(fault func(string, ...any)) {
	loop := d.Serves(abi.KindLogits) || d.Serves(abi.KindSampler)
	reads := d.View > 0 || d.Row || d.Serves(abi.KindSampler)
	switch d.State {
	case "":
		switch {
		case loop && reads:
			d.State = abi.StateLogits
		case loop:
			d.State = abi.StateTokens
		}
	case abi.StateNone, abi.StateTokens, abi.StateLogits:
		if !loop {
			fault("state is for kinds %q and %q", abi.KindLogits, abi.KindSampler)
		}
	default:
		fault("state %q is none of %q, %q, %q", d.State, abi.StateNone, abi.StateTokens, abi.StateLogits)
	}
}

// twice returns the first member of a JSON object that comes again, whatever its case, which decides nothing when it is
// decoded; "" where there is none.
func twice(text []byte) string {
	d, seen := json.NewDecoder(bytes.NewReader(text)), map[string]bool{}
	for _, err := d.Token(); err == nil && d.More(); {
		key, _ := d.Token()
		name, _ := key.(string)
		if seen[folded(name)] {
			return name
		}
		seen[folded(name)] = true
		err = d.Decode(new(json.RawMessage))
	}
	return ""
}

// folded is a name as encoding/json compares it with those of a struct's fields: equal for names that differ in case.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// addNeed applies one entry of "needs".
func (d *Description) addNeed(n string) error {
	if n == abi.NeedsRow {
		d.Row = true
		return nil
	}
	digits, ok := strings.CutPrefix(n, abi.NeedsTopK)
	v, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || v < 1 || v > abi.MaxView {
		return fmt.Errorf("%w: need %q is neither %q nor %qN with N from 1 to %d", ErrDescription, n, abi.NeedsRow,
			abi.NeedsTopK, abi.MaxView)
	}
	d.View = max(d.View, int(v))
	return nil
}

// checkConfig refuses a configuration for a guest that reads none, because it would silently have no effect. The guest
// itself refuses a configuration that is not an object.
func (d Description) checkConfig(config []byte) error {
	var members map[string]json.RawMessage
	if d.Config || json.Unmarshal(config, &members) != nil {
		return nil
	}
	if d.worksOnChats() { // their configuration holds the model
		delete(members, "model")
	}
	if len(members) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(members))
	return fmt.Errorf("configuration: the plugin reads none, and is given %.80q; if it does read it, its description must say \"config\": true", names[0])
}
