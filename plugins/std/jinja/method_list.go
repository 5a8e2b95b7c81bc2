package jinja

import (
	"math"
	"math/big"
)

var listMethods, dictMethods map[string]*method

func init() {
	listMethods = map[string]*method{
		"copy":  {class: "list", name: "copy", call: listCopy},
		"count": {class: "list", name: "count", min: 1, max: 1, call: listCount},
		"index": {class: "list", name: "index", min: 1, max: 3, call: listIndex},
	}
	dictMethods = map[string]*method{
		"copy":     {class: "dict", name: "copy", call: dictCopy},
		"get":      {class: "dict", name: "get", min: 1, max: 2, call: dictGet},
		"fromkeys": {class: "dict", name: "fromkeys", min: 1, max: 2, call: dictFromKeys},
		"items":    {class: "dict", name: "items", call: dictViewOf(viewItems)},
		"keys":     {class: "dict", name: "keys", call: dictViewOf(viewKeys)},
		"values":   {class: "dict", name: "values", call: dictViewOf(viewValues)},
	}
}

func itemsOf(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.items
	case *Tuple:
		return v.items
	}
	return nil
}

func listCopy(st *state, self Value, _ []Value) (Value, error) {
	items := itemsOf(self)
	return &List{append([]Value(nil), items...)}, st.growItems(len(items))
}

func listCount(st *state, self Value, a []Value) (Value, error) {
	n := 0
	for _, v := range itemsOf(self) {
		if err := st.step(); err != nil {
			return nil, err
		}
		eq, err := st.equal(v, a[0], 0)
		if err != nil {
			return nil, err
		}
		if eq {
			n++
		}
	}
	return Int(n), nil
}

func listIndex(st *state, self Value, a []Value) (Value, error) {
	items := itemsOf(self)
	lo, hi, _, err := charRange(len(items), a[1], a[2])
	if err != nil {
		return nil, err
	}
	for i := lo; i < hi; i++ {
		if err := st.step(); err != nil {
			return nil, err
		}
		eq, err := st.equal(items[i], a[0], 0)
		if err != nil {
			return nil, err
		}
		if eq {
			return Int(i), nil
		}
	}
	if _, ok := self.(*Tuple); ok {
		return nil, valueError("tuple.index(x): x not in tuple")
	}
	return nil, valueError("%s is not in list", reprText(a[0]))
}

func dictCopy(st *state, self Value, _ []Value) (Value, error) {
	d := self.(*Dict)
	return d.clone(), st.growItems(2 * d.len())
}

func dictGet(_ *state, self Value, a []Value) (Value, error) {
	v, ok, err := self.(*Dict).get(a[0])
	switch {
	case err != nil:
		return nil, err
	case ok:
		return v, nil
	case a[1] != nil:
		return a[1], nil
	}
	return none, nil
}

func dictFromKeys(st *state, _ Value, a []Value) (Value, error) {
	keys, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	val := none
	if a[1] != nil {
		val = a[1]
	}
	d := &Dict{}
	for _, k := range keys {
		if err := d.set(k, val); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func dictViewOf(kind viewKind) func(*state, Value, []Value) (Value, error) {
	return func(_ *state, self Value, _ []Value) (Value, error) {
		return &dictView{self.(*Dict), kind}, nil
	}
}

func (r *rangeObj) attr(name string) Value {
	switch name {
	case "start":
		return Int(r.start)
	case "stop":
		return Int(r.stop)
	case "step":
		return Int(r.step)
	}
	return nil
}

// numberAttr gives the attributes of numbers that templates could want.
func numberAttr(v Value, name string) Value {
	fn := func(f func() Value) Value {
		m := &method{class: v.pyType(), name: name, call: func(*state, Value, []Value) (Value, error) { return f(), nil }}
		return m.bind(v)
	}
	f, isFloat := v.(Float)
	switch {
	case name == "real":
		if _, ok := v.(Bool); ok {
			n, _ := smallInt(v)
			return Int(n)
		}
		return v
	case name == "imag" && isFloat:
		return Float(0)
	case name == "imag":
		return Int(0)
	case name == "conjugate":
		return fn(func() Value { return v })
	case name == "is_integer" && isFloat:
		return fn(func() Value { return Bool(!math.IsInf(float64(f), 0) && f == Float(math.Trunc(float64(f)))) })
	case isFloat:
		return nil
	}
	n, _ := asInt(v)
	switch name {
	case "numerator":
		return normInt(n)
	case "denominator":
		return Int(1)
	case "bit_length":
		return fn(func() Value { return Int(n.BitLen()) })
	case "bit_count":
		return fn(func() Value {
			count := 0
			for i, a := 0, new(big.Int).Abs(n); i < a.BitLen(); i++ {
				count += int(a.Bit(i))
			}
			return Int(count)
		})
	}
	return nil
}
