package pylib

import (
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// Namespace is the object that namespace() makes: the only one whose
// attributes a template can set.
type Namespace struct{ attrs *value.Dict }

// Type implements Value.
func (*Namespace) Type() string { return "TemplateNamespace" }

// QualifiedType implements value.Qualified.
func (*Namespace) QualifiedType() string {
	return "transformers.utils.chat_template_utils.TemplateNamespace"
}

// Repr implements value.Printable.
func (ns *Namespace) Repr(w *value.Writer) error {
	w.Text("<Namespace ")
	if err := w.Dict(ns.attrs); err != nil {
		return err
	}
	w.Text(">")
	return nil
}

// cycler is jinja2's cycler().
type cycler struct {
	items []value.Value
	pos   int
}

// Type implements Value.
func (*cycler) Type() string { return "Cycler" }

// QualifiedType implements value.Qualified.
func (*cycler) QualifiedType() string { return "jinja2.utils.Cycler" }

// joiner is jinja2's joiner().
type joiner struct {
	sep  value.Value
	used bool
}

// Type implements Value.
func (*joiner) Type() string { return "Joiner" }

// QualifiedType implements value.Qualified.
func (*joiner) QualifiedType() string { return "jinja2.utils.Joiner" }

// Call returns an empty string the first time and then the separator.
func (j *joiner) Call(_ *value.Thread, a value.Args) (value.Value, error) {
	if len(a.Pos)+len(a.Keywords) > 0 {
		return nil, value.TypeError("Joiner.__call__() takes 1 positional argument but %d were given", len(a.Pos)+1)
	}
	if !j.used {
		j.used = true
		return value.Empty, nil
	}
	return j.sep, nil
}

// Attr implements value.Attributed.
func (j *joiner) Attr(_ *value.Thread, name string) (value.Value, error) {
	switch name {
	case "sep":
		return j.sep, nil
	case "used":
		return value.Bool(j.used), nil
	}
	return nil, nil
}

// Attr implements value.Attributed.
func (c *cycler) Attr(_ *value.Thread, name string) (value.Value, error) {
	switch name {
	case "next":
		return &value.Func{Name: "next", Self: c, Do: func(*value.Thread, value.Args) (value.Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}}, nil
	case "reset":
		return &value.Func{Name: "reset", Self: c, Do: func(*value.Thread, value.Args) (value.Value, error) {
			c.pos = 0
			return value.None, nil
		}}, nil
	case "current":
		return c.items[c.pos], nil
	case "items":
		return &value.Tuple{Items: c.items}, nil
	case "pos":
		return value.Int(c.pos), nil
	}
	return nil, nil
}

// Set sets an attribute.
func (ns *Namespace) Set(name string, v value.Value) error {
	if strings.HasPrefix(name, "_") {
		return value.Raise("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a "+
			"namespace, but got %s. Please rename the attribute.", chars.Quote(name))
	}
	return ns.attrs.Set(value.Text(name), v)
}
