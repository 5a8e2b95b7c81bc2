package config

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lines returns the line of every key and table in text, which Decode accepted. Keys of a
// list of tables are by index, as in key[0].name.
func lines(text []byte) map[string]int {
	at := map[string]int{}
	expressions(text, func(p *unstable.Parser, e *unstable.Node, name string) {
		if key := e.Key(); e.Kind != unstable.ArrayTable && key.Next() {
			at[name] = p.Shape(key.Node().Raw).Start.Line
		}
		if e.Kind == unstable.KeyValue {
			markTables(p, e.Value(), name, at)
		}
	})
	return at
}

// expressions calls f for the tables, elements of lists of tables, and keys with values of text, which Decode accepted,
// in their order. Those of inline tables are no expressions of their own. Names are as in lines.
func expressions(text []byte, f func(p *unstable.Parser, e *unstable.Node, name string)) {
	count := map[string]int{}
	section := ""
	p := &unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		name := keyOf(e.Key())
		switch e.Kind {
		case unstable.Table:
			name = indexed(name, count)
			section = name + "."
		case unstable.ArrayTable:
			list := indexed(name, count)
			name = fmt.Sprintf("%s[%d]", list, count[list])
			section = name + "."
			count[list]++
		case unstable.KeyValue:
			name = section + name
		default:
			continue
		}
		f(p, e, name)
	}
}

// mark notes the line of a key and of those in inline tables below it.
func mark(p *unstable.Parser, e *unstable.Node, prefix string, at map[string]int) {
	key := e.Key()
	name := prefix + keyOf(e.Key())
	if key.Next() {
		at[name] = p.Shape(key.Node().Raw).Start.Line
	}
	markTables(p, e.Value(), name, at)
}

// markTables notes the lines of the keys in the inline tables of a value, which
// is called name.
func markTables(p *unstable.Parser, v *unstable.Node, name string, at map[string]int) {
	switch v.Kind {
	case unstable.InlineTable:
		for inner := v.Children(); inner.Next(); {
			mark(p, inner.Node(), name+".", at)
		}
	case unstable.Array:
		i := 0
		for inner := v.Children(); inner.Next(); i++ {
			markTables(p, inner.Node(), fmt.Sprintf("%s[%d]", name, i), at)
		}
	}
}

func keyOf(parts unstable.Iterator) string {
	var names []string
	for parts.Next() {
		names = append(names, string(parts.Node().Data))
	}
	return strings.Join(names, ".")
}

// indexed puts the indexes of the lists of tables that a table or list is in into its name, such as plugin.limits.
func indexed(name string, count map[string]int) string {
	parts := strings.Split(name, ".")
	at := ""
	for _, part := range parts[:len(parts)-1] {
		if at += part; count[at] > 0 {
			at = fmt.Sprintf("%s[%d]", at, count[at]-1)
		}
		at += "."
	}
	return at + parts[len(parts)-1]
}
