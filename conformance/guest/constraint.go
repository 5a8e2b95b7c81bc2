package guest

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// has says whether the guest has an export.
func (r *run) has(export string) bool {
	return slices.ContainsFunc(r.guest.Exports(), func(f abi.Func) bool { return f.Name == export })
}

// constraint asks what the text of a request is held to and reports what is wrong
// with the answer.
func (p *prepared) constraint(request string) (a Answer, ok bool) {
	q, ok := p.begin()
	if !ok {
		return a, false
	}
	defer q.Close()
	p.world.Seed = seed
	at, n, ok := q.hand([]byte(request))
	if !ok {
		return a, false
	}
	v, ok := q.call("tgi_tools_constraint", at, n)
	if !ok {
		return a, false
	}
	before := len(p.run.found)
	a = q.held(uint32(v))
	return a, len(p.run.found) == before
}

// held reads a result.
func (p *prepared) held(at uint32) Answer {
	a := Answer{Kind: abi.KindTools}
	text, notes, fault, ok := p.compiled("constraint", at, abi.MaxConstraint)
	switch {
	case !ok:
	case fault != "":
		a.Fault = fault
	case !utf8.Valid(text):
		p.run.report("constraint", "text %q is not UTF-8", text)
	default:
		a.Text = " held to " + string(text) + " but " + string(notes)
		p.grammarOf(text)
	}
	return a
}

// grammarOf reports what is wrong with a grammar that is still to be compiled.
func (p *prepared) grammarOf(text []byte) {
	if len(text) == 0 {
		return
	}
	var g struct {
		Language, Source string
		Params           map[string]any
		Optional         bool
		Places           []struct{ At, Pointer, Tool string }
	}
	if err := json.Unmarshal(text, &g); err != nil {
		p.run.report("constraint", "%v in %q", err, text)
		return
	}
	if g.Language == "" || len(g.Language) > abi.MaxLanguage || g.Source == "" || len(g.Source) > abi.MaxSource ||
		len(g.Places) > abi.MaxPlaces {
		p.run.report("constraint", "language %.80q, a source of %d bytes, %d places", g.Language, len(g.Source),
			len(g.Places))
	}
	for _, l := range g.Places {
		if !strings.HasPrefix(l.At, "#") || !strings.HasPrefix(l.Pointer, "#") {
			p.run.report("constraint", "place %q is %q, want pointers that begin with #", l.At, l.Pointer)
		}
	}
}
