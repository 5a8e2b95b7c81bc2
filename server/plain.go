package server

import (
	"cmp"
	"errors"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// Plainly is Explain for APIs whose clients do not know TGI's words: the text names the fields as names has them, by
// what a Draft calls them, and has neither TGI's beginning nor serde's types.
func Plainly(err error, names map[string]string) Failure {
	f := Explain(err)
	var shape *wire.Error
	var rule *generate.Invalid
	var tool *generate.ToolError
	switch {
	case errors.As(err, &tool):
		f.Text = cmp.Or(tool.Plain, tool.Msg)
	case errors.As(err, &rule):
		f.Text = rule.Msg
	case errors.As(err, &shape):
		f.Text = shape.Plain()
	}
	f.Text = Renamed(f.Text, names)
	return f
}

// Renamed returns a text about fields with other names for them. Names stand in backquotes.
func Renamed(text string, names map[string]string) string {
	if !strings.Contains(text, "`") {
		return text
	}
	pairs := make([]string, 0, 2*len(names))
	for old, name := range names {
		pairs = append(pairs, "`"+old+"`", "`"+name+"`")
	}
	return strings.NewReplacer(pairs...).Replace(text) // in one pass: what was renamed is not renamed again
}
