package jinja

import "strings"

// dictAttrs are the attributes of dict, which x.name finds before the keys.
var dictAttrs = set("clear copy fromkeys get items keys pop popitem setdefault update values")

// mutators are the methods that the immutable sandbox forbids.
var mutators = map[string]map[string]bool{
	"list": set("append clear pop reverse insert sort extend remove"),
	"dict": set("clear pop popitem setdefault update"),
}

// dunders are the attributes that every object of Python has.
var dunders = set("__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ " +
	"__hash__ __init__ __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ " +
	"__sizeof__ __str__ __subclasshook__")

// sized are those of strings, lists, tuples and dicts besides.
var sized = set("__len__ __getitem__ __contains__ __iter__")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// attribute is Python's getattr(v, name) under the sandbox: nil where there is none.
func (st *state) attribute(v Value, name string) (Value, error) {
	if u, ok := v.(*Undefined); ok {
		if dunders[name] {
			return unsafeAttr(v, name), nil
		}
		if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
			return nil, nil
		}
		return nil, u.err()
	}
	if ns, ok := v.(*Namespace); ok {
		if name == "__class__" {
			return unsafeAttr(v, name), nil
		}
		r, _ := ns.attrs.getStr(name)
		return r, nil
	}
	if strings.HasPrefix(name, "_") {
		if dunders[name] {
			return unsafeAttr(v, name), nil
		}
		if _, isDict := v.(*Dict); sized[name] && (isSequence(v) || isDict) {
			return unsafeAttr(v, name), nil
		}
		return nil, nil
	}
	switch v.(type) {
	case *List, *Dict:
		if mutators[v.pyType()][name] {
			return unsafeAttr(v, name), nil
		}
	}
	return st.publicAttr(v, name)
}

func unsafeAttr(v Value, name string) *Undefined {
	return &Undefined{
		hint:  "access to attribute " + reprText(text(name)) + " of " + reprText(text(typeName(v))) + " object is unsafe.",
		class: "SecurityError",
	}
}

func typeName(v Value) string { return className(v) }

func (st *state) publicAttr(v Value, name string) (Value, error) {
	switch x := v.(type) {
	case *Str:
		if name == "format" || name == "format_map" {
			return formatMethod(x, name), nil
		}
		if m := strMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *List:
		if m := listMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *Tuple:
		for i, n := range x.names {
			if n == name {
				return x.items[i], nil
			}
		}
		if m := listMethods[name]; m != nil && name != "copy" {
			return m.bind(x), nil
		}
	case *Dict:
		if m := dictMethods[name]; m != nil {
			return m.bind(x), nil
		}
	case *dictView:
		if name == "mapping" {
			return x.d, nil
		}
	case *rangeObj:
		return x.attr(name), nil
	case Int, Bool, *bigInt, Float:
		return numberAttr(v, name), nil
	case *loopContext:
		return x.attr(st, name)
	case *cycler:
		return x.attr(name), nil
	case *joiner:
		switch name {
		case "sep":
			return x.sep, nil
		case "used":
			return Bool(x.used), nil
		}
	case *Macro:
		return x.attr(name), nil
	case *selfObj:
		return st.block(name), nil
	case *builtin:
		if name == "fromkeys" && x.name == "dict" {
			return dictMethods["fromkeys"].bind(&Dict{}), nil
		}
	}
	return nil, nil
}

// getattr is v.name in a template: the attribute, or else the item.
func (st *state) getattr(v Value, name *Str) (Value, error) {
	r, err := st.attribute(v, name.s)
	if r != nil || err != nil {
		return r, err
	}
	if d, ok := v.(*Dict); ok {
		if r, ok := d.getStr(name.s); ok {
			return r, nil
		}
	}
	return undefinedAttr(v, name), nil
}

// getitem is v[arg] in a template: the item, or else the attribute.
func (st *state) getitem(v, arg Value) (Value, error) {
	r, err := st.item(v, arg)
	if r != nil || err != nil {
		return r, err
	}
	if name, ok := arg.(*Str); ok {
		r, err := st.attribute(v, name.s)
		if r != nil || err != nil {
			return r, err
		}
	}
	return undefinedAttr(v, arg), nil
}

// item is Python's v[arg]; nil stands for its TypeError and LookupError.
func (st *state) item(v, arg Value) (Value, error) {
	switch x := v.(type) {
	case *Undefined:
		return nil, x.err()
	case *Dict:
		r, ok, err := x.get(arg)
		if err != nil || !ok {
			return nil, nil
		}
		return r, nil
	case *List:
		if i, ok := index(arg, int64(len(x.items))); ok {
			return x.items[i], nil
		}
	case *Tuple:
		if i, ok := index(arg, int64(len(x.items))); ok {
			return x.items[i], nil
		}
	case *rangeObj:
		if i, ok := index(arg, x.n); ok {
			return Int(x.start + i*x.step), nil
		}
	case *Str:
		if _, isStr := arg.(*Str); isStr {
			return nil, nil
		}
		if i, ok := index(arg, int64(x.count())); ok {
			lo := x.byteAt(int(i))
			return x.sub(lo, lo+text(x.s[lo:]).byteAt(1)), nil
		}
	}
	return nil, nil
}

// index reads a subscript of a sequence of length n.
func index(arg Value, n int64) (int64, bool) {
	i, ok := smallInt(arg)
	if !ok {
		return 0, false
	}
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n
}

func (l *loopContext) attr(st *state, name string) (Value, error) {
	switch name {
	case "index":
		return Int(l.index0 + 1), nil
	case "index0":
		return Int(l.index0), nil
	case "first":
		return Bool(l.index0 == 0), nil
	case "last":
		v, err := l.peek()
		return Bool(v == nil), err
	case "length":
		n, err := l.length(st)
		return Int(n), err
	case "revindex":
		n, err := l.length(st)
		return Int(n - l.index0), err
	case "revindex0":
		n, err := l.length(st)
		return Int(n - l.index0 - 1), err
	case "depth":
		return Int(l.depth0 + 1), nil
	case "depth0":
		return Int(l.depth0), nil
	case "previtem":
		if l.index0 == 0 {
			return &Undefined{hint: "there is no previous item"}, nil
		}
		return l.before, nil
	case "nextitem":
		v, err := l.peek()
		if v == nil && err == nil {
			return &Undefined{hint: "there is no next item"}, nil
		}
		return v, err
	case "cycle":
		return &builtin{name: "cycle", self: l, call: l.cycle}, nil
	case "changed":
		return &builtin{name: "changed", self: l, call: l.isChanged}, nil
	}
	return nil, nil
}

func (l *loopContext) cycle(_ *state, a args) (Value, error) {
	if len(a.pos) == 0 {
		return nil, typeError("no items for cycling given")
	}
	return a.pos[l.index0%int64(len(a.pos))], nil
}

func (l *loopContext) isChanged(st *state, a args) (Value, error) {
	now := &Tuple{items: a.pos}
	if l.changed != nil {
		same, err := st.equal(l.changed, now, 0)
		if same || err != nil {
			return Bool(false), err
		}
	}
	l.changed = now
	return Bool(true), nil
}

func (m *Macro) attr(name string) Value {
	switch name {
	case "name":
		if m.def.name == "" {
			return none
		}
		return text(m.def.name)
	case "arguments":
		t := &Tuple{}
		for _, a := range m.def.args {
			t.items = append(t.items, text(a.name))
		}
		return t
	case "catch_kwargs":
		return Bool(m.def.uses[1])
	case "catch_varargs":
		return Bool(m.def.uses[2])
	case "caller":
		return Bool(m.def.uses[0])
	}
	return nil
}

func (c *cycler) attr(name string) Value {
	switch name {
	case "next":
		return &builtin{name: "next", self: c, call: func(*state, args) (Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}}
	case "reset":
		return &builtin{name: "reset", self: c, call: func(*state, args) (Value, error) {
			c.pos = 0
			return none, nil
		}}
	case "current":
		return c.items[c.pos]
	case "items":
		return &Tuple{items: c.items}
	case "pos":
		return Int(c.pos)
	}
	return nil
}

func (ns *Namespace) set(name string, v Value) error {
	if strings.HasPrefix(name, "_") {
		return raise("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got %s. Please rename the attribute.", reprText(text(name)))
	}
	return ns.attrs.set(text(name), v)
}
