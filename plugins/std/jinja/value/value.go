package value

import (
	"math/big"

	"tgi/plugins/std/jinja/chars"
)

// Value is a Python object of a template: a type of this package, or an object of
// another one, whose methods say what it can do (see Callable).
type Value interface {
	// Type is the name of the object's class, as in Python's error texts.
	Type() string
}

// NoneType is the class of None.
type NoneType struct{}

// Type implements Value.
func (NoneType) Type() string { return "NoneType" }

// None is Python's None.
var None Value = NoneType{}

// Bool is Python's bool.
type Bool bool

// Type implements Value.
func (Bool) Type() string { return "bool" }

// Int is a Python int that fits in 64 bits.
type Int int64

// Type implements Value.
func (Int) Type() string { return "int" }

// BigInt is a Python int that does not fit in Int.
type BigInt struct{ v *big.Int }

// Type implements Value.
func (*BigInt) Type() string { return "int" }

// Float is Python's float.
type Float float64

// Type implements Value.
func (Float) Type() string { return "float" }

// List is Python's list. Templates cannot change one.
type List struct{ Items []Value }

// Type implements Value.
func (*List) Type() string { return "list" }

// Tuple is Python's tuple. If names is set, the items are also attributes with
// these names (groupby's pairs).
type Tuple struct {
	Items []Value
	Names []string
}

// Type implements Value.
func (*Tuple) Type() string { return "tuple" }

// Range is Python's range.
type Range struct{ Start, Stop, Step, N int64 }

// Type implements Value.
func (*Range) Type() string { return "range" }

// ViewKind is the kind of a view of a dict.
type ViewKind uint8

// The views of a dict.
const (
	ViewKeys ViewKind = iota
	ViewValues
	ViewItems
)

// DictView is dict.keys(), dict.values() or dict.items().
type DictView struct {
	Dict *Dict
	kind ViewKind
}

// Type implements Value.
func (v *DictView) Type() string {
	return [...]string{"dict_keys", "dict_values", "dict_items"}[v.kind]
}

// NewView makes a view of d.
func NewView(d *Dict, kind ViewKind) *DictView { return &DictView{d, kind} }

// At returns item i of the view.
func (v *DictView) At(i int) Value {
	e := v.Dict.entries[i]
	switch v.kind {
	case ViewKeys:
		return e.Key
	case ViewValues:
		return e.Value
	}
	return &Tuple{Items: []Value{e.Key, e.Value}}
}

// Generator is an iterator that can be used once: Python's generators and the
// iterators of reversed().
type Generator struct {
	Class string
	Next  func() (v Value, ok bool, err error)
}

// Type implements Value.
func (g *Generator) Type() string { return g.Class }

// Undefined is a missing value. It prints as an empty string and is false. Most
// other uses raise its error.
type Undefined struct {
	Hint  string
	obj   Value // nil: a variable
	Name  Value // *Str, or what was asked for by []
	Class string
}

// Type implements Value.
func (*Undefined) Type() string { return "Undefined" }

// UndefinedName is the value of a variable that is not set.
func UndefinedName(name string) *Undefined { return &Undefined{Name: Text(name)} }

// UndefinedAttr is the value of an attribute or item that obj lacks.
func UndefinedAttr(obj, name Value) *Undefined { return &Undefined{obj: obj, Name: name} }

// Call raises the exception of u.
func (u *Undefined) Call(*Thread, Args) (Value, error) { return nil, u.Err() }

// Err returns the exception that a use of u raises.
func (u *Undefined) Err() error {
	class := u.Class
	if class == "" {
		class = "UndefinedError"
	}
	return &Exception{Class: class, Msg: u.message()}
}

func (u *Undefined) message() string {
	if u.Hint != "" {
		return u.Hint
	}
	if u.obj == nil {
		return Repr(u.Name) + " is undefined"
	}
	owner := objectTypeRepr(u.obj)
	if _, ok := u.Name.(*Str); !ok {
		return owner + " has no element " + Repr(u.Name)
	}
	return chars.Quote(owner) + " has no attribute " + Repr(u.Name)
}

// objectTypeRepr is jinja2's object_type_repr.
func objectTypeRepr(v Value) string {
	switch v := v.(type) {
	case NoneType:
		return "None"
	case Qualified:
		return v.QualifiedType() + " object"
	case *Str:
		if v.safe {
			return "markupsafe.Markup object"
		}
	}
	return v.Type() + " object"
}

// Func is a function or method of Python that a template may call.
type Func struct {
	Name string
	Self Value // nil for a plain function
	Do   func(th *Thread, a Args) (Value, error)
}

// Call implements Callable.
func (b *Func) Call(th *Thread, a Args) (Value, error) { return b.Do(th, a) }

// Type implements Value.
func (b *Func) Type() string {
	if b.Self != nil {
		return "builtin_function_or_method"
	}
	return "function"
}

// Truth is Python's bool(v).
func (th *Thread) Truth(v Value) (bool, error) {
	switch v := v.(type) {
	case NoneType, *Undefined:
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
		return len(v.Items) > 0, nil
	case *Tuple:
		return len(v.Items) > 0, nil
	case *Dict:
		return v.Len() > 0, nil
	case *DictView:
		return v.Dict.Len() > 0, nil
	case *Range:
		return v.N > 0, nil
	case Sized:
		n, err := v.Length(th)
		return n > 0, err
	}
	return true, nil
}

// ClassName is pyType with the subclasses told apart.
func ClassName(v Value) string {
	if s, ok := v.(*Str); ok && s.safe {
		return "Markup"
	}
	return v.Type()
}
