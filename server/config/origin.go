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
	count := map[string]int{}
	section := ""
	p := &unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			name, key := indexed(keyOf(e.Key()), count), e.Key()
			if key.Next() {
				at[name] = p.Shape(key.Node().Raw).Start.Line
			}
			section = name + "."
		case unstable.ArrayTable:
			name := keyOf(e.Key())
			section = fmt.Sprintf("%s[%d].", name, count[name])
			count[name]++
		case unstable.KeyValue:
			mark(p, e, section, at)
		}
	}
	return at
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

// indexed puts the index of its list into the name of a table below one, such
// as plugin.limits.
func indexed(name string, count map[string]int) string {
	list, rest, ok := strings.Cut(name, ".")
	if n := count[list]; ok && n > 0 {
		return fmt.Sprintf("%s[%d].%s", list, n-1, rest)
	}
	return name
}
