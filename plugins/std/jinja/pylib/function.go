package pylib

import (
	"fmt"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// callFunc gets the parameters in order. Those that were left out are nil.
type callFunc func(th *value.Thread, a []value.Value) (value.Value, error)

// Function is a filter or test: a Python function with named parameters.
type Function struct {
	name         string // as Python's errors call it
	implicit     int    // parameters that jinja2 passes itself and Python counts
	params       []string
	required     int
	varArgs      bool // takes *args: a *Tuple, after the parameters
	varKeywords  bool // takes **kwargs: a *Dict, last
	builtin      bool // written in C: positional only, other error texts
	perCharacter bool // see perCharacter
	call         callFunc
}

// def declares a function. spec lists the parameters; those with a = may be left
// out and are nil then.
func def(name string, hidden int, spec string, call callFunc) *Function {
	f := &Function{name: name, implicit: hidden, call: call}
	for p := range strings.FieldsSeq(spec) {
		switch {
		case strings.HasPrefix(p, "**"):
			f.varKeywords = true
		case strings.HasPrefix(p, "*"):
			f.varArgs = true
		case strings.HasSuffix(p, "="):
			f.params = append(f.params, p[:len(p)-1])
		default:
			f.params = append(f.params, p)
			f.required = len(f.params)
		}
	}
	return f
}

// native declares a function that Python has in C.
func native(name, spec string, call callFunc) *Function {
	f := def(name, 0, spec, call)
	f.builtin = true
	return f
}

// Invoke calls a filter or test: its value comes first.
func (f *Function) Invoke(th *value.Thread, a value.Args) (value.Value, error) {
	if len(a.Pos) > 0 {
		if err := th.Read(a.Pos[0], f.perCharacter); err != nil {
			return nil, err
		}
	}
	if f.builtin {
		if len(a.Keywords) > 0 {
			return nil, value.TypeError("%s() takes no keyword arguments", f.name)
		}
		if len(a.Pos) != len(f.params) {
			return nil, f.nativeCount(len(a.Pos))
		}
		return f.call(th, a.Pos)
	}
	n := len(f.params)
	vals := make([]value.Value, n, n+2)
	if len(a.Pos) > n && !f.varArgs {
		return nil, f.tooMany(len(a.Pos))
	}
	copy(vals, a.Pos)
	var rest *value.Dict
	for _, k := range a.Keywords {
		i := f.param(k.Name.String())
		switch {
		case i < 0 && f.varKeywords:
			if rest == nil {
				rest = &value.Dict{}
			}
			_ = rest.Set(k.Name, k.Value) // strings hash
		case i < 0:
			return nil, value.TypeError("%s() got an unexpected keyword argument %s", f.name, value.Repr(k.Name))
		case vals[i] != nil:
			return nil, value.TypeError("%s() got multiple values for argument %s", f.name, value.Repr(k.Name))
		default:
			vals[i] = k.Value
		}
	}
	if err := f.missing(vals); err != nil {
		return nil, err
	}
	if f.varArgs {
		extra := &value.Tuple{}
		if len(a.Pos) > n {
			extra.Items = a.Pos[n:]
		}
		vals = append(vals, extra)
	}
	if f.varKeywords {
		if rest == nil {
			rest = &value.Dict{}
		}
		vals = append(vals, rest)
	}
	return f.call(th, vals)
}

func (f *Function) param(name string) int {
	for i, p := range f.params {
		if p == name {
			return i
		}
	}
	return -1
}

func (f *Function) nativeCount(n int) error {
	if len(f.params) == 1 {
		return value.TypeError("%s() takes exactly one argument (%d given)", f.name, n)
	}
	return value.TypeError("%s expected %d arguments, got %d", f.name, len(f.params), n)
}

func (f *Function) tooMany(n int) error {
	most := len(f.params) + f.implicit
	least := f.required + f.implicit
	takes := fmt.Sprint(most)
	if least != most {
		takes = fmt.Sprintf("from %d to %d", least, most)
	}
	plural := "s"
	if most == 1 {
		plural = ""
	}
	return value.TypeError("%s() takes %s positional argument%s but %d were given", f.name, takes, plural, n+f.implicit)
}

func (f *Function) missing(vals []value.Value) error {
	var names []string
	for i := range f.required {
		if vals[i] == nil {
			names = append(names, chars.Quote(f.params[i]))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return value.TypeError("%s() missing 1 required positional argument: %s", f.name, names[0])
	case 2:
		return value.TypeError("%s() missing 2 required positional arguments: %s and %s", f.name, names[0], names[1])
	}
	last := len(names) - 1
	return value.TypeError("%s() missing %d required positional arguments: %s, and %s", f.name, len(names),
		strings.Join(names[:last], ", "), names[last])
}

// perCharacterNames names the methods and filters that look at each character by itself.
var perCharacterNames = set("upper lower title capitalize swapcase casefold isalpha isalnum isdecimal isdigit isnumeric " +
	"isspace isprintable isascii islower isupper isidentifier istitle splitlines expandtabs translate maketrans " +
	"zfill encode format format_map wordcount indent escape e forceescape striptags urlencode xmlattr truncate list " +
	"reverse int float wordwrap urlize pprint")
