package grammar_test

import (
	"fmt"
	"strings"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// schema builds JSON grammars as a plugin would write them.
type schema struct {
	irtest.Builder
	flexible     bool
	str, num, in uint32 // terminals of any string, number, integer
	char         uint32 // regex of a character of a string, escapes included
	value        uint32 // rule of any value
	tag          string // after every property's name
}

func newSchema(flexible bool) *schema {
	s := &schema{flexible: flexible}
	plain := s.Chars(ir.Range{Lo: 0x20, Hi: 0x21}, ir.Range{Lo: 0x23, Hi: 0x5B}, ir.Range{Lo: 0x5D, Hi: 0x10FFFF})
	hex := s.Bytes("09afAF")
	s.char = s.Union(plain, s.Concat(s.Lit(`\`), s.Union(s.Bytes(`""//bbffnnrrtt\\`),
		s.Concat(s.Lit("u"), s.Repeat(hex, 4, 4)))))
	s.str = s.Term(s.quoted(s.Repeat(s.char, 0, ir.Unbounded)))
	digits := s.Repeat(s.Bytes("09"), 0, ir.Unbounded)
	integer := s.Concat(s.Repeat(s.Lit("-"), 0, 1), s.Union(s.Lit("0"), s.Concat(s.Bytes("19"), digits)))
	s.in = s.Term(integer)
	frac := s.Repeat(s.Concat(s.Lit("."), s.Bytes("09"), digits), 0, 1)
	exp := s.Repeat(s.Concat(s.Bytes("eeEE"), s.Repeat(s.Bytes("++--"), 0, 1), s.Bytes("09"), digits), 0, 1)
	s.num = s.Term(s.Concat(integer, frac, exp))
	s.value = s.Declare("value")
	pair := s.Seq(s.str, s.mark(":"), s.Rule(s.value))
	s.Define(s.value, s.Choice(
		s.str, s.num, s.Term(s.Lits("true", "false", "null")),
		s.Seq(s.open("{"), s.list(pair), s.close("}")), s.array(s.Rule(s.value), 0, ir.Unbounded),
	))
	return s
}

func (s *schema) quoted(regex uint32) uint32 { return s.Concat(s.Lit(`"`), regex, s.Lit(`"`)) }

func (s *schema) space() uint32 { return s.Repeat(s.Bytes("  \n\n\t\t\r\r"), 0, ir.Unbounded) }

// mark is punctuation surrounded by white space.
func (s *schema) mark(text string) uint32 {
	if s.flexible {
		return s.Term(s.Concat(s.space(), s.Lit(text), s.space()))
	}
	return s.Text(text)
}

func (s *schema) open(text string) uint32 {
	if s.flexible {
		return s.Term(s.Concat(s.Lit(text), s.space()))
	}
	return s.Text(text)
}

func (s *schema) close(text string) uint32 {
	if s.flexible {
		return s.Term(s.Concat(s.space(), s.Lit(text)))
	}
	return s.Text(text)
}

func (s *schema) list(item uint32) uint32 {
	return s.Times(s.Seq(item, s.Times(s.Seq(s.mark(","), item), 0, ir.Unbounded)), 0, 1)
}

func (s *schema) array(item, least, most uint32) uint32 {
	if most != ir.Unbounded {
		most--
	}
	items := s.Seq(item, s.Times(s.Seq(s.mark(","), item), max(least, 1)-1, most))
	if least == 0 {
		items = s.Times(items, 0, 1)
	}
	return s.Seq(s.open("["), items, s.close("]"))
}

// property is a member of an object: its name, its value and whether it is optional.
type property struct {
	name     string
	value    uint32
	optional bool
}

// object has its properties in order, with commas between those present.
func (s *schema) object(props ...property) uint32 {
	var tail, rest uint32 // after some property; before any
	tail, rest = s.Seq(), s.Seq()
	comma := s.mark(",")
	for i := len(props) - 1; i >= 0; i-- {
		p := props[i]
		name := s.Seq(s.Text(fmt.Sprintf("%q", p.name+s.tag)), s.mark(":"), p.value)
		with, first := s.Seq(comma, name, tail), s.Seq(name, tail)
		if p.optional {
			with, first = s.Choice(with, tail), s.Choice(first, rest)
		}
		tail, rest = with, first
	}
	return s.Seq(s.open("{"), rest, s.close("}"))
}

func (s *schema) done(body uint32) *ir.Grammar {
	r := s.Declare("start")
	s.Define(r, body)
	s.G.Start = r
	return &s.G
}

// workload is a grammar and texts of it.
type workload struct {
	name  string
	g     *ir.Grammar
	texts []string
}

// workloads resemble the schemas that users send. tag is appended to every property's name: grammars with different
// tags share no states except those of their terminals.
func workloads(flexible bool, tag string) []workload {
	sep := func(text string) string {
		if flexible {
			return strings.NewReplacer(`":`, `": `, `,"`, `, "`, `{"`, "{\n  \"", `"}`, "\"\n}").Replace(text)
		}
		return text
	}
	var out []workload
	newSchema := func(flexible bool) *schema {
		s := newSchema(flexible)
		s.tag = tag
		return s
	}
	add := func(name string, s *schema, body uint32, texts ...string) {
		for i := range texts {
			texts[i] = strings.ReplaceAll(texts[i], `":`, tag+`":`)
			texts[i] = sep(texts[i])
		}
		out = append(out, workload{name, s.done(body), texts})
	}
	s := newSchema(flexible)
	add("json", s, s.Rule(s.value),
		`{"name":"Barato de Luka","age":42,"tags":["alo","beto, or not","c"],"nested":{"a":[1,2.5,-3e10,{"b":null}],"t":true}}`)
	s = newSchema(flexible)
	person := s.object(
		property{"name", s.str, false}, property{"age", s.in, false}, property{"email", s.str, true},
		property{"city", s.str, true}, property{"active", s.Term(s.Lits("true", "false")), false},
	)
	add("person", s, person, `{"name":"Ana Bela Cato","age":37,"city":"Zuriko am See","active":true}`,
		`{"name":"x","age":-1,"email":"a@b.example","active":false}`)
	s = newSchema(flexible)
	color := s.Term(s.Lits(`"red"`, `"green"`, `"blue"`, `"dark blue"`))
	date := s.Term(s.quoted(s.Concat(s.Repeat(s.Bytes("09"), 4, 4), s.Lit("-"), s.Repeat(s.Bytes("09"), 2, 2),
		s.Lit("-"), s.Repeat(s.Bytes("09"), 2, 2))))
	item := s.object(property{"sku", s.Term(s.quoted(s.Repeat(s.Bytes("AZ09"), 6, 10))), false},
		property{"color", color, false}, property{"price", s.num, false})
	order := s.object(property{"date", date, false}, property{"items", s.array(item, 1, 20), false},
		property{"note", s.Term(s.quoted(s.Repeat(s.char, 0, 200))), true})
	add("order", s, order,
		`{"date":"2026-11-21","items":[{"sku":"AB12CD","color":"dark blue","price":12.50},{"sku":"ZZZZZZ99","color":"red","price":3}],"note":"deliver to the back door, please, and do not ring before nine"}`)
	s = newSchema(flexible)
	node := s.Declare("node")
	s.Define(node, s.object(property{"id", s.in, false}, property{"children", s.array(s.Rule(node), 0, ir.Unbounded),
		true}))
	add("tree", s, s.Rule(node), `{"id":1,"children":[{"id":2,"children":[{"id":3},{"id":4,"children":[]}]},{"id":5}]}`)
	s = newSchema(flexible)
	var props []property
	text := "{"
	for i := range 60 {
		props = append(props, property{fmt.Sprintf("field%d", i), s.str, i%3 != 0})
		if i%3 == 0 || i%7 == 0 {
			text += fmt.Sprintf(`"field%d":"value %d of it",`, i, i)
		}
	}
	add("wide", s, s.object(props...), strings.TrimSuffix(text, ",")+"}")
	s = newSchema(flexible)
	pattern := s.And(s.quoted(s.Repeat(s.Bytes("az09__--"), 1, ir.Unbounded)), s.quoted(s.Repeat(s.char, 3, 24)),
		s.Not(s.Lits(`"admin"`, `"root"`)))
	add("and", s, s.object(property{"user", s.Term(pattern), false},
		property{"bio", s.Term(s.quoted(s.Repeat(s.char, 10, 5000))), false}),
		`{"user":"bar-tolo_99","bio":"born in the valley of Ento, he grew up with goats, two brothers and a \"very\" small piano"}`)
	s = newSchema(flexible)
	var names []string
	for _, n := range []string{"name", "names", "id", "identity", "type", "kind", "created", "creator", "value",
		"über"} {
		names = append(names, fmt.Sprintf("%q", n+tag))
	}
	other := s.Term(s.And(s.Concat(s.Lit(`"`), s.Repeat(s.char, 0, ir.Unbounded), s.Lit(`"`)), s.Not(s.Lits(names...))))
	more := s.Times(s.Seq(s.mark(","), other, s.mark(":"), s.Rule(s.value)), 0, ir.Unbounded)
	add("open", s, s.Seq(s.open("{"), s.Term(s.Lits(names[0])), s.mark(":"), s.str, more, s.close("}")),
		`{"name":"Cato","namesake":[true,false],"idle":12,"note on it":"it has \u00e9 in it","über uns":null}`)
	s = newSchema(flexible)
	alnum := s.Bytes("azAZ09  ")
	end := s.Repeat(s.Lit("#"+tag), 0, 1) // so that patterns of different tags are different terminals
	anyChar := s.Repeat(s.char, 0, ir.Unbounded)
	letter := s.Chars(ir.Range{Lo: 'a', Hi: 'z'}, ir.Range{Lo: 'A', Hi: 'Z'}, ir.Range{Lo: 0xC0, Hi: 0x24F},
		ir.Range{Lo: 0x370, Hi: 0x4FF}, ir.Range{Lo: 0x4E00, Hi: 0x9FFF})
	mail := s.Concat(s.Repeat(s.Bytes("azAZ09..__"), 1, 64), s.Lit("@"),
		s.Repeat(s.Concat(s.Repeat(s.Bytes("az09--"), 1, 63), s.Lit(".")), 1, 8), s.Repeat(s.Bytes("az"), 2, 10))
	add("patterns", s, s.object(
		property{"title", s.Term(s.quoted(s.Concat(s.Repeat(alnum, 1, 64), end))), false},
		property{"has", s.Term(s.quoted(s.Concat(anyChar, s.Lit("foo"), end, anyChar))), false},
		property{"short", s.Term(s.quoted(s.Concat(s.Repeat(s.char, 1, 40), end))), false},
		property{"words", s.Term(s.quoted(s.Concat(s.Repeat(s.Concat(s.Repeat(letter, 1, 20), s.Lit(" ")), 0, 10),
			s.Repeat(letter, 1, 20), end))), false},
		property{"mail", s.Term(s.quoted(s.Concat(mail, end))), false},
	), `{"title":"A tale of two cities 2","has":"there is foo in it","short":"not too long, I hope","words":"много разных слов here","mail":"ana.bela@mail.example"}`)
	return out
}
