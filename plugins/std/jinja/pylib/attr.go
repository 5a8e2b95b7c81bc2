package pylib

import (
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/format"
	"tgi/plugins/std/jinja/value"
)

// IsDictAttr reports whether dicts have an attribute of this name.
func IsDictAttr(name string) bool { return dictAttrs[name] }

// dictAttrs are the attributes of dict. x.name finds them before the keys.
var dictAttrs = set("clear copy fromkeys get items keys pop popitem setdefault update values")

// mutators are the methods that the immutable sandbox forbids.
var mutators = map[string]map[string]bool{
	"list": set("append clear pop reverse insert sort extend remove"),
	"dict": set("clear pop popitem setdefault update"),
}

// dunders are the attributes that every Python object has.
var dunders = set("__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ " +
	"__gt__ __hash__ __init__ __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ " +
	"__setattr__ __sizeof__ __str__ __subclasshook__")

// sizedAttrs are attributes that strings, lists, tuples and dicts also have.
var sizedAttrs = set("__len__ __getitem__ __contains__ __iter__")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// attribute is Python's getattr(v, name) under the sandbox. It is nil if there is none.
func attribute(th *value.Thread, v value.Value, name string) (value.Value, error) {
	if u, ok := v.(*value.Undefined); ok {
		if dunders[name] {
			return unsafeAttr(v, name), nil
		}
		if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
			return nil, nil
		}
		return nil, u.Err()
	}
	if ns, ok := v.(*Namespace); ok {
		if name == "__class__" {
			return unsafeAttr(v, name), nil
		}
		r, _ := ns.attrs.GetStr(name)
		return r, nil
	}
	if strings.HasPrefix(name, "_") {
		if dunders[name] {
			return unsafeAttr(v, name), nil
		}
		if _, isDict := v.(*value.Dict); sizedAttrs[name] && (isSequence(v) || isDict) {
			return unsafeAttr(v, name), nil
		}
		return nil, nil
	}
	switch v.(type) {
	case *value.List, *value.Dict:
		if mutators[v.Type()][name] {
			return unsafeAttr(v, name), nil
		}
	}
	return publicAttr(th, v, name)
}

func unsafeAttr(v value.Value, name string) *value.Undefined {
	return &value.Undefined{
		Hint: "access to attribute " + chars.Quote(name) + " of " + chars.Quote(value.ClassName(v)) +
			" object is unsafe.",
		Class: "SecurityError",
	}
}

func publicAttr(th *value.Thread, v value.Value, name string) (value.Value, error) {
	switch x := v.(type) {
	case *value.Str:
		if name == "format" || name == "format_map" {
			return formatMethod(x, name), nil
		}
		if m := strMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *value.List:
		if m := listMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *value.Tuple:
		for i, n := range x.Names {
			if n == name {
				return x.Items[i], nil
			}
		}
		if m := listMethods[name]; m != nil && name != "copy" {
			return m.bind(x), nil
		}
	case *value.Dict:
		if m := dictMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *value.DictView:
		if name == "mapping" {
			return x.Dict, nil
		}
	case *value.Range:
		return rangeAttr(x, name), nil
	case value.Int, value.Bool, *value.BigInt, value.Float:
		return numberAttr(v, name), nil
	case *value.Func:
		if name == "fromkeys" && x.Name == "dict" {
			return dictMethods["fromkeys"].bind(&value.Dict{}), nil
		}
	case value.Attributed:
		return x.Attr(th, name)
	}
	return nil, nil
}

// GetAttr is v.name in a template: the attribute or, if there is none, the item.
func GetAttr(th *value.Thread, v value.Value, name *value.Str) (value.Value, error) {
	r, err := attribute(th, v, name.String())
	if r != nil || err != nil {
		return r, err
	}
	if d, ok := v.(*value.Dict); ok {
		if r, ok := d.GetStr(name.String()); ok {
			return r, nil
		}
	}
	return value.UndefinedAttr(v, name), nil
}

// GetItem is v[arg] in a template: the item or, if there is none, the attribute.
func GetItem(th *value.Thread, v, arg value.Value) (value.Value, error) {
	r, err := itemOf(th, v, arg)
	if r != nil || err != nil {
		return r, err
	}
	if name, ok := arg.(*value.Str); ok {
		r, err := attribute(th, v, name.String())
		if r != nil || err != nil {
			return r, err
		}
	}
	return value.UndefinedAttr(v, arg), nil
}

// item is Python's v[arg]. It is nil instead of a TypeError or LookupError.
func itemOf(th *value.Thread, v, arg value.Value) (value.Value, error) {
	switch x := v.(type) {
	case *value.Undefined:
		return nil, x.Err()
	case *value.Dict:
		r, ok, err := x.Get(arg)
		if err != nil || !ok {
			return nil, nil
		}
		return r, nil
	case *value.List:
		if i, ok := index(arg, int64(len(x.Items))); ok {
			return x.Items[i], nil
		}
	case *value.Tuple:
		if i, ok := index(arg, int64(len(x.Items))); ok {
			return x.Items[i], nil
		}
	case *value.Range:
		if i, ok := index(arg, x.N); ok {
			return value.Int(x.Start + i*x.Step), nil
		}
	case *value.Str:
		if _, isStr := arg.(*value.Str); isStr {
			return nil, nil
		}
		if i, ok := index(arg, int64(x.Count())); ok {
			lo := x.ByteAt(int(i))
			return x.Sub(lo, lo+value.Text(x.String()[lo:]).ByteAt(1)), nil
		}
	}
	return nil, nil
}

// index reads a subscript of a sequence of length n.
func index(arg value.Value, n int64) (int64, bool) {
	i, ok := value.AsInt64(arg)
	if !ok {
		return 0, false
	}
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n
}

// formatMethod is str.format or str.format_map as the sandbox wraps it.
func formatMethod(s *value.Str, name string) value.Value {
	return &value.Func{Name: name, Self: s, Do: func(th *value.Thread, a value.Args) (value.Value, error) {
		if name == "format_map" {
			if len(a.Keywords) > 0 {
				return nil, value.TypeError("format_map() takes no keyword arguments")
			}
			if len(a.Pos) != 1 {
				return nil, value.TypeError("format_map() takes exactly one argument (%d given)", len(a.Pos))
			}
			mapping := a.Pos[0]
			a = value.Args{}
			if err := a.AddKw(mapping); err != nil {
				return nil, err
			}
		}
		out, err := format.Fields(th, s, a, format.Lookup{Attr: GetAttr, Item: GetItem})
		if err != nil {
			return nil, err
		}
		return out, nil
	}}
}
