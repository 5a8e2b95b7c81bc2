package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// has says whether the guest has an export.
func (r *run) has(export string) bool {
	for _, f := range r.guest.Exports() {
		if f.Name == export {
			return true
		}
	}
	return false
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
	b, ok := p.read(at, abi.CompiledSize)
	if !ok || at%4 != 0 {
		p.run.report("constraint", "result at %#x, memory ends at %#x", at, len(p.Memory()))
		return a
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	status := field(abi.CompiledStatus)
	text, inside := p.read(field(abi.CompiledText), field(abi.CompiledTextBytes))
	notes, noted := p.read(field(abi.CompiledNotes), field(abi.CompiledNoteBytes))
	switch {
	case status > abi.StatusFailed:
		p.run.report("constraint", "status %d", status)
	case !inside:
		p.run.report("constraint", "text of %d bytes at %#x, memory ends at %#x", field(abi.CompiledTextBytes), field(abi.CompiledText), len(p.Memory()))
	case !utf8.Valid(text):
		p.run.report("constraint", "text %q is not UTF-8", text)
	case status == abi.StatusFailed && len(text) == 0:
		p.run.report("constraint", "failed without a text")
	case status == abi.StatusFailed:
		a.Fault = string(text)
	case len(text) > abi.MaxConstraint:
		p.run.report("constraint", "text of %d bytes, more than %d", len(text), abi.MaxConstraint)
	case !noted || len(notes) > abi.MaxNotes:
		p.run.report("notes", "%d bytes at %#x, memory ends at %#x", field(abi.CompiledNoteBytes), field(abi.CompiledNotes), len(p.Memory()))
	default:
		a.Text = " held to " + string(bytes.Clone(text)) + " but " + string(notes)
		p.grammarOf(text)
		p.notesOf(notes)
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
	if g.Language == "" || len(g.Language) > abi.MaxLanguage || g.Source == "" || len(g.Source) > abi.MaxSource || len(g.Places) > abi.MaxPlaces {
		p.run.report("constraint", "language %.80q, a source of %d bytes, %d places", g.Language, len(g.Source), len(g.Places))
	}
	for _, l := range g.Places {
		if !strings.HasPrefix(l.At, "#") || !strings.HasPrefix(l.Pointer, "#") {
			p.run.report("constraint", "place %q is %q, want pointers that begin with #", l.At, l.Pointer)
		}
	}
}

// notesOf reports what is wrong with what was left out.
func (p *prepared) notesOf(notes []byte) {
	var list []struct{ Pointer, Keyword, Reason string }
	if err := json.Unmarshal(notes, &list); len(notes) > 0 && (err != nil || !utf8.Valid(notes)) {
		p.run.report("notes", "%v in %q", err, notes)
	}
}
