// Command csv-columns is a grammar language of its own: a source names the
// columns of a table, one in each line, and the texts are such tables in CSV. The
// plugin compiles a source, and the server runs what it compiled.
//
//	name text
//	born date
//	state new|done
package main

import (
	"fmt"
	"strings"

	"tgi/sdk/go/grammar"
	"tgi/sdk/go/grammar/form"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "csv-columns", Version: "1.0.0", Config: true,
		Doc:    "Tables in CSV, with the columns that the source names.",
		Params: `{"type":"object","additionalProperties":false,"properties":{"rows":{"description":"Greatest number of rows.","type":"integer","minimum":1,"maximum":1000,"default":10}}}`,
	})
	grammar.Register([]string{"csv-columns"}, func(config []byte) (grammar.Plugin, error) {
		rows, err := readRows(config, 10)
		return compiler{rows}, err
	})
}

func main() {}

// compiler is the plugin. rows is the greatest number of rows.
type compiler struct{ rows uint32 }

// Validate looks at a request's parameters.
func (c compiler) Validate(raw []byte) error {
	_, err := readRows(raw, c.rows)
	return err
}

func readRows(raw []byte, rows uint32) (uint32, error) {
	if raw == nil {
		return rows, nil
	}
	in := params.Read(raw)
	for name := range in.Object() {
		if name != "rows" {
			in.Fail("unknown parameter: " + name)
			break
		}
		if rows = in.Uint(); rows < 1 || rows > 1000 {
			in.Fail(fmt.Sprintf("rows: %d is not from 1 to 1000", rows))
		}
	}
	return rows, in.Close()
}

// Compile implements grammar.Plugin: a line with the names, then one to so many rows.
func (c compiler) Compile(r grammar.Request) (grammar.Compiled, error) {
	rows, err := readRows(r.Params, c.rows)
	if err != nil {
		return grammar.Compiled{}, err
	}
	var b form.Builder
	var names []string
	var cells []form.Expr
	for i, line := range strings.Split(strings.TrimSpace(r.Source), "\n") {
		name, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.ContainsAny(name, `",`) {
			return grammar.Compiled{}, fmt.Errorf("line %d: %q is no name of a column", i+1, name)
		}
		cell, err := cellOf(&b, strings.TrimSpace(what))
		if err != nil {
			return grammar.Compiled{}, fmt.Errorf("line %d: column %s: %w", i+1, name, err)
		}
		if i > 0 {
			cells = append(cells, b.Lit(","))
		}
		names, cells = append(names, name), append(cells, b.Term(name, cell))
	}
	row := b.Seq(append(cells, b.Lit("\n"))...)
	table := b.Rule("table", b.Seq(b.Lit(strings.Join(names, ",")+"\n"), b.Times(row, 1, rows)))
	encoded, err := b.Encode(table)
	return grammar.Compiled{Form: encoded}, err
}

// cellOf is what may stand in a column.
func cellOf(b *form.Builder, what string) (form.Regex, error) {
	digits := func(n uint32) form.Regex { return b.Repeat(b.Bytes("09"), n, n) }
	switch what {
	case "int":
		return b.Union(b.Text("0"), b.Concat(b.Repeat(b.Text("-"), 0, 1), b.Bytes("19"), b.Repeat(b.Bytes("09"), 0,
			8))), nil
	case "date":
		month := b.Union(b.Concat(b.Text("0"), b.Bytes("19")), b.Concat(b.Text("1"), b.Bytes("02")))
		day := b.Union(b.Concat(b.Text("0"), b.Bytes("19")), b.Concat(b.Text("1"), b.Bytes("09")),
			b.Concat(b.Text("2"), b.Bytes("08")))
		return b.Concat(digits(4), b.Text("-"), month, b.Text("-"), day), nil
	case "text": // a character, or two quotes for one
		quoted := b.Union(b.Chars(' ', '!', '#', '~', 'À', 'ž'), b.Text(`""`))
		return b.Concat(b.Text(`"`), b.Repeat(quoted, 1, 24), b.Text(`"`)), nil
	}
	choices := strings.Split(what, "|")
	if len(choices) < 2 || strings.ContainsAny(what, "\",") {
		return form.Regex{}, fmt.Errorf("%q is none of int, date, text, or choices with | between them", what)
	}
	return b.Texts(choices...), nil
}
