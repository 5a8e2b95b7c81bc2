package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what a piece of a reply is.
type kind uint8

const (
	reasoning kind = iota
	reasoningContent
	text
	refusal
	callName
	callArguments
)

// kinds are what differences call them.
var kinds = [...]string{"reasoning", "reasoning_content", "text", "refusal", "name", "arguments"}

// functionCall is the number of a call in the member function_call, which has none.
const functionCall = -1

// place is where a reply says something: streams and replies in one piece have the same places for the same things.
type place struct {
	// again is empty for what was said first. Streams say most things again, in events that have this name.
	again string
	// sequence is the number of the choice, part that of an item or a block in it.
	sequence, part int
	kind           kind
	// call is the number of the call that has the name or the arguments.
	call int
}

// name is what differences call the place; many says that there are several sequences.
func (p place) name(many bool) string {
	name := kinds[p.kind]
	switch {
	case p.kind < callName:
	case p.call == functionCall:
		name += " of function_call"
	default:
		name += fmt.Sprintf(" of call %d", p.call)
	}
	switch {
	case !many:
	case name == kinds[text]:
		name = fmt.Sprintf("text %d", p.sequence)
	default:
		name += fmt.Sprintf(" of text %d", p.sequence)
	}
	if p.part > 0 {
		name += fmt.Sprintf(" of part %d", p.part)
	}
	if p.again != "" {
		name += " in " + p.again
	}
	return name
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.again, q.again), cmp.Compare(p.sequence, q.sequence), cmp.Compare(p.part, q.part),
		cmp.Compare(min(p.kind, callName), min(q.kind, callName)), cmp.Compare(p.call, q.call),
		cmp.Compare(p.kind, q.kind))
}

// maxNumber is the greatest number of a sequence, a part or a call.
const maxNumber = 1<<16 - 1

// add adds what is said at a place.
func (o *outcome) add(p place, said string) {
	p.sequence += o.base
	for _, n := range []struct {
		name string
		n    int
	}{{"index of a choice", p.sequence}, {"index of a part", p.part}, {"index of a call", max(p.call, 0)}} {
		if n.n < 0 || n.n > maxNumber {
			o.fail(fmt.Errorf("the %s: want a whole number from 0 to %d, given %d", n.name, maxNumber, n.n))
			return
		}
	}
	if o.said == nil {
		o.said = map[place][]byte{}
	}
	o.said[p] = append(o.said[p], said...)
	o.next = max(o.next, p.sequence+1)
}

// repeats reports whether the reply says anything again in this way. What only one reply repeats is not compared: it
// may come from an older server, or be the same reply in one piece.
func (o *outcome) repeats(again string) bool {
	for p := range o.said {
		if p.again == again {
			return true
		}
	}
	return false
}

// textDifferences tells where what two replies say begins to differ.
func textDifferences(was, is *outcome) (list []Difference) {
	all := map[place]bool{}
	again := map[string]bool{"": true}
	many := false
	for _, o := range []*outcome{was, is} {
		for p := range o.said {
			many = many || p.sequence > 0
			if _, known := again[p.again]; !known {
				again[p.again] = was.repeats(p.again) && is.repeats(p.again)
			}
			if again[p.again] {
				all[p] = true
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(all), place.compare) {
		a, known := was.said[p]
		b, still := is.said[p]
		switch name := p.name(many); {
		case known == still && string(a) == string(b):
		case known != still && p.kind == callName: // a call without a name is one all the same
			d := Difference{Field: name}
			if known {
				d.Was = shown(string(a))
			} else {
				d.Is = shown(string(b))
			}
			list = append(list, d)
		case string(a) != string(b):
			list = append(list, textDifference(name, string(a), string(b)))
		}
	}
	return list
}

// textDifference is that of two texts called name.
func textDifference(name, was, is string) Difference {
	at := common(was, is)
	return Difference{fmt.Sprintf("%s behind %d bytes", name, at), shown(was[at:]), shown(is[at:])}
}

// common is how many bytes two texts begin with alike, without parts of characters.
func common(a, b string) (at int) {
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	for at > 0 && (at < len(a) && !utf8.RuneStart(a[at]) || at < len(b) && !utf8.RuneStart(b[at])) {
		at--
	}
	return at
}

// shown is the beginning of a text, as Go quotes it.
func shown(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}
