package guest

import (
	"bytes"
	"encoding/binary"
	"slices"

	"tgi/plugins/grammar/ir"
	"tgi/sdk/abi"
)

// Source is a grammar in one of a guest's languages.
type Source struct{ Language, Text string }

// sources are the kit's own, in the languages that have a meaning for everyone:
// some that a guest should take, and what it should refuse rather than trap on.
var sources = []Source{
	{"json_schema",
		`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`},
	{"json_schema", `{"type":"nonesuch"}`}, {"json_schema", `{"$ref":"#"`}, {"json_schema", ""},
	{"json_object", ""},
	{"regex", "[a-z]+(-[0-9]{2})?"}, {"regex", "(a"}, {"regex", ""},
	{"choice", `["yes","no"]`}, {"choice", `[1]`},
	{"gbnf", "root ::= \"a\" root | \"b\"\n"}, {"gbnf", "root ::="},
	{"lark", "start: \"a\" start | \"b\"\n"}, {"lark", "start:"},
	{"structural_tag", `{"type":"structural_tag","structures":[],"triggers":[]}`}, {"structural_tag", "[]"},
}

// HasSources reports whether the kit has sources in a language. In others a guest of kind grammar gets an empty one,
// unless a [Case] brings some.
func HasSources(language string) bool {
	return slices.ContainsFunc(sources, func(s Source) bool { return s.Language == language })
}

// steps of a grammar is whether the guest computes masks itself.
func (d *Description) steps() bool {
	return d.serves(abi.KindGrammar) && slices.Contains(d.Modes, abi.NameSteps)
}

// form returns the exports of a kind that the description calls for.
func (d *Description) form(kind string) []abi.Func {
	if kind == abi.KindGrammar && d.steps() {
		return abi.GrammarSteps
	}
	return abi.Exports(kind)
}

// grammars has the guest take all sources in its languages, each in an instance of
// its own; one in a language that the kit does not know is empty.
func (p *prepared) grammars() (answers []Answer, ok bool) {
	if p.run.now.Refused {
		return nil, true
	}
	list := slices.Concat(sources, p.run.now.Sources)
	for _, language := range p.d.Languages {
		if !slices.ContainsFunc(list, func(s Source) bool { return s.Language == language }) {
			list = append(list, Source{Language: language})
		}
	}
	for _, s := range list {
		if !slices.Contains(p.d.Languages, s.Language) {
			continue
		}
		a, ok := p.grammar(s)
		if !ok {
			return nil, false
		}
		answers = append(answers, a...)
	}
	return answers, true
}

func (p *prepared) grammar(s Source) (answers []Answer, ok bool) {
	q, ok := p.begin()
	if !ok {
		return nil, false
	}
	defer q.Close()
	p.world.Seed = seed
	request := withMember(encode(map[string]string{"language": s.Language, "source": s.Text}), "params",
		p.run.now.Params)
	before := len(p.run.found)
	if p.d.steps() {
		answers, ok = q.follow(request)
	} else {
		answers, ok = q.compile(request)
	}
	return answers, ok && len(p.run.found) == before
}

// compile reads a result and reports what is wrong with it.
func (p *prepared) compile(request string) ([]Answer, bool) {
	at, n, ok := p.hand([]byte(request))
	if !ok {
		return nil, false
	}
	v, ok := p.call("tgi_grammar_compile", at, n)
	if !ok {
		return nil, false
	}
	text, notes, fault, ok := p.compiled("compiled", uint32(v), abi.MaxGrammar)
	if !ok {
		return nil, false
	}
	a := Answer{Kind: abi.KindGrammar, Out: bytes.Clone(text), Text: string(notes), Fault: fault}
	if fault != "" {
		return []Answer{a}, true
	}
	if _, err := ir.Read(text); err != nil {
		p.run.report("compiled", "%v", err)
	}
	return []Answer{a}, true
}

// maskRooms are where a guest that computes masks finds tokens, and writes.
type maskRooms struct{ tokens, mask, size uint32 }

// follow takes some steps through a grammar whose masks the guest computes.
func (p *prepared) follow(request string) (answers []Answer, ok bool) {
	at, n, ok := p.hand([]byte(request))
	if !ok {
		return nil, false
	}
	var rooms maskRooms
	rooms.size = 4 * abi.MaskWords(p.world.VocabSize())
	if rooms.tokens, ok = p.alloc(4); !ok {
		return nil, false
	}
	if rooms.mask, ok = p.alloc(rooms.size + guard); !ok {
		return nil, false
	}
	fault, ok := p.text("tgi_grammar_begin", abi.MaxText, at, n)
	if !ok || fault != "" {
		return []Answer{{Kind: abi.KindGrammar, Fault: fault}}, ok
	}
	known := map[uint64]string{}
	for range steps {
		a, key, ok := p.mask(rooms)
		if !ok {
			return nil, false
		}
		answers = append(answers, a)
		if was, again := known[key]; again && key != 0 && was != a.String() {
			p.run.report("key", "%#x for %s and for %s", key, was, a)
		}
		known[key] = a.String()
		next, more := p.choose(a)
		if !more {
			return answers, true
		}
		copy(p.Memory()[rooms.tokens:], words(next))
		if status, ok := p.call("tgi_grammar_accept", uint64(rooms.tokens), 1); !ok || uint32(status) != abi.StatusOK {
			p.run.report("accept", "status %d for token %d, which the mask allows", int32(status), next)
			return nil, false
		}
	}
	return answers, true
}

// mask asks for what may come next, twice: asking changes nothing.
func (p *prepared) mask(rooms maskRooms) (a Answer, key uint64, ok bool) {
	a.Kind = abi.KindGrammar
	packed, ok := p.call("tgi_grammar_forced")
	if !ok {
		return a, 0, false
	}
	if at, n := abi.Unpack(packed); n > 0 {
		b, inside := p.read(at, 4*min(n, abi.MaxForced))
		if !inside || at%4 != 0 || n > abi.MaxForced {
			p.run.report("force", "%d tokens at %#x, memory ends at %#x", n, at, len(p.Memory()))
			return a, 0, false
		}
		if a.Force = []uint32{binary.LittleEndian.Uint32(b)}; a.Force[0] >= p.world.VocabSize() {
			p.run.report("force", "token %d of %d", a.Force[0], p.world.VocabSize())
			return a, 0, false
		}
	}
	if key, ok = p.call("tgi_grammar_key"); !ok {
		return a, 0, false
	}
	for i := range 2 {
		room := p.Memory()[rooms.mask:][:rooms.size+guard]
		copy(room, bytes.Repeat([]byte{guardByte}, len(room)))
		status, ok := p.call("tgi_grammar_mask", uint64(rooms.mask))
		if !ok {
			return a, 0, false
		}
		room = p.Memory()[rooms.mask:][:rooms.size+guard]
		if j := slices.IndexFunc(room[rooms.size:], func(c byte) bool { return c != guardByte }); j >= 0 {
			p.run.report("overrun", "tgi_grammar_mask wrote %d bytes behind the room", j)
		}
		out := bytes.Clone(room[:rooms.size])
		switch {
		case uint32(status) == abi.MaskAll:
			out = nil
		case uint32(status) != abi.StatusOK:
			p.run.report("mask", "status %d", int32(status))
			return a, 0, false
		}
		if i == 1 && !bytes.Equal(out, a.Out) {
			p.run.report("mask", "% x, then % x", a.Out, out)
		}
		a.Out = out
	}
	return a, key, true
}

// choose picks a token that may come next: one that is forced, or the first; none
// where the text may end, or nothing else may come.
func (p *prepared) choose(a Answer) (token uint32, more bool) {
	if len(a.Force) > 0 {
		return a.Force[0], true
	}
	none := true
	for id := range p.world.VocabSize() {
		if a.Out != nil && a.Out[id/8]&(1<<(id%8)) == 0 {
			continue
		}
		none = false
		if flags, ok := p.world.TokenFlags(id); ok && flags&abi.TokenEnd == 0 {
			return id, true
		}
	}
	if none {
		p.run.report("mask", "no token is allowed")
	}
	return 0, false
}
