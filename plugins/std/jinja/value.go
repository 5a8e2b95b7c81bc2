package jinja

import "math/big"

// Value is one of Python's objects as a template sees them. The types of this
// package are all there are.
type Value interface {
	// pyType is the name of the object's class, as in Python's error texts.
	pyType() string
}

type noneType struct{}

func (noneType) pyType() string { return "NoneType" }

var none Value = noneType{}

// Bool is Python's bool.
type Bool bool

func (Bool) pyType() string { return "bool" }

// Int is a Python int that fits in 64 bits.
type Int int64

func (Int) pyType() string { return "int" }

// bigInt is a Python int that does not fit in Int.
type bigInt struct{ v *big.Int }

func (*bigInt) pyType() string { return "int" }

// Float is Python's float.
type Float float64

func (Float) pyType() string { return "float" }

// List is Python's list. Templates cannot change one.
type List struct{ items []Value }

func (*List) pyType() string { return "list" }

// Tuple is Python's tuple. Where names is set the items have these attributes
// too (groupby's pairs).
type Tuple struct {
	items []Value
	names []string
}

func (*Tuple) pyType() string { return "tuple" }

// rangeObj is Python's range.
type rangeObj struct{ start, stop, step, n int64 }

func (*rangeObj) pyType() string { return "range" }

// viewKind tells the views of a dict apart.
type viewKind uint8

const (
	viewKeys viewKind = iota
	viewValues
	viewItems
)

// dictView is dict.keys(), dict.values() or dict.items().
type dictView struct {
	d    *Dict
	kind viewKind
}

func (v *dictView) pyType() string {
	return [...]string{"dict_keys", "dict_values", "dict_items"}[v.kind]
}

func (v *dictView) at(i int) Value {
	e := v.d.entries[i]
	switch v.kind {
	case viewKeys:
		return e.key
	case viewValues:
		return e.val
	}
	return &Tuple{items: []Value{e.key, e.val}}
}

// generator is an iterator that can be walked once: Python's generators and
// the iterators that reversed() gives.
type generator struct {
	class string
	next  func() (v Value, ok bool, err error)
}

func (g *generator) pyType() string { return g.class }

// Undefined stands for a value that is not there. It prints as nothing and is
// false; most other uses raise its error.
type Undefined struct {
	hint  string
	obj   Value // nil: a variable
	name  Value // *Str, or what was asked for by []
	class string
}

func (*Undefined) pyType() string { return "Undefined" }

func undefinedName(name string) *Undefined { return &Undefined{name: text(name)} }

func undefinedAttr(obj, name Value) *Undefined { return &Undefined{obj: obj, name: name} }

// err is the exception that using u raises.
func (u *Undefined) err() error {
	class := u.class
	if class == "" {
		class = "UndefinedError"
	}
	return &RenderError{Class: class, Msg: u.message()}
}

func (u *Undefined) message() string {
	if u.hint != "" {
		return u.hint
	}
	if u.obj == nil {
		return reprText(u.name) + " is undefined"
	}
	owner := objectTypeRepr(u.obj)
	if _, ok := u.name.(*Str); !ok {
		return owner + " has no element " + reprText(u.name)
	}
	return reprText(text(owner)) + " has no attribute " + reprText(u.name)
}

// objectTypeRepr is jinja2's object_type_repr.
func objectTypeRepr(v Value) string {
	switch v := v.(type) {
	case noneType:
		return "None"
	case *Namespace:
		return "transformers.utils.chat_template_utils.TemplateNamespace object"
	case *loopContext:
		return "jinja2.runtime.LoopContext object"
	case *Macro:
		return "jinja2.runtime.Macro object"
	case *cycler:
		return "jinja2.utils.Cycler object"
	case *joiner:
		return "jinja2.utils.Joiner object"
	case *Str:
		if v.safe {
			return "markupsafe.Markup object"
		}
	}
	return v.pyType() + " object"
}

// builtin is a function or method of Python that a template may call.
type builtin struct {
	name string
	self Value // nil for a plain function
	call func(st *state, a args) (Value, error)
}

func (b *builtin) pyType() string {
	if b.self != nil {
		return "builtin_function_or_method"
	}
	return "function"
}

// Namespace is the object that namespace() makes: the only one whose
// attributes a template can set.
type Namespace struct{ attrs *Dict }

func (*Namespace) pyType() string { return "TemplateNamespace" }

// cycler is jinja2's cycler().
type cycler struct {
	items []Value
	pos   int
}

func (*cycler) pyType() string { return "Cycler" }

// joiner is jinja2's joiner().
type joiner struct {
	sep  Value
	used bool
}

func (*joiner) pyType() string { return "Joiner" }

// truth is Python's bool(v).
func truth(st *state, v Value) (bool, error) {
	switch v := v.(type) {
	case noneType, *Undefined:
		return false, nil
	case Bool:
		return bool(v), nil
	case Int:
		return v != 0, nil
	case Float:
		return v != 0, nil
	case *Str:
		return v.s != "", nil
	case *List:
		return len(v.items) > 0, nil
	case *Tuple:
		return len(v.items) > 0, nil
	case *Dict:
		return v.len() > 0, nil
	case *dictView:
		return v.d.len() > 0, nil
	case *rangeObj:
		return v.n > 0, nil
	case *loopContext:
		n, err := v.length(st)
		return n > 0, err
	}
	return true, nil
}
