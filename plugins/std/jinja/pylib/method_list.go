package pylib

import (
	"math"
	"math/big"

	"tgi/plugins/std/jinja/value"
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
		"items":    {class: "dict", name: "items", call: dictViewOf(value.ViewItems)},
		"keys":     {class: "dict", name: "keys", call: dictViewOf(value.ViewKeys)},
		"values":   {class: "dict", name: "values", call: dictViewOf(value.ViewValues)},
	}
}

func itemsOf(v value.Value) []value.Value {
	switch v := v.(type) {
	case *value.List:
		return v.Items
	case *value.Tuple:
		return v.Items
	}
	return nil
}

func listCopy(th *value.Thread, self value.Value, _ []value.Value) (value.Value, error) {
	items := itemsOf(self)
	return &value.List{Items: append([]value.Value(nil), items...)}, th.GrowItems(len(items))
}

func listCount(th *value.Thread, self value.Value, a []value.Value) (value.Value, error) {
	n := 0
	for _, v := range itemsOf(self) {
		if err := th.Step(); err != nil {
			return nil, err
		}
		eq, err := th.Equal(v, a[0], 0)
		if err != nil {
			return nil, err
		}
		if eq {
			n++
		}
	}
	return value.Int(n), nil
}

func listIndex(th *value.Thread, self value.Value, a []value.Value) (value.Value, error) {
	items := itemsOf(self)
	lo, hi, _, err := charRange(len(items), a[1], a[2])
	if err != nil {
		return nil, err
	}
	for i := lo; i < hi; i++ {
		if err := th.Step(); err != nil {
			return nil, err
		}
		eq, err := th.Equal(items[i], a[0], 0)
		if err != nil {
			return nil, err
		}
		if eq {
			return value.Int(i), nil
		}
	}
	if _, ok := self.(*value.Tuple); ok {
		return nil, value.ValueError("tuple.index(x): x not in tuple")
	}
	return nil, value.ValueError("%s is not in list", value.Repr(a[0]))
}

func dictCopy(th *value.Thread, self value.Value, _ []value.Value) (value.Value, error) {
	d := self.(*value.Dict)
	return d.Clone(), th.GrowItems(2 * d.Len())
}

func dictGet(_ *value.Thread, self value.Value, a []value.Value) (value.Value, error) {
	v, ok, err := self.(*value.Dict).Get(a[0])
	switch {
	case err != nil:
		return nil, err
	case ok:
		return v, nil
	case a[1] != nil:
		return a[1], nil
	}
	return value.None, nil
}

func dictFromKeys(th *value.Thread, _ value.Value, a []value.Value) (value.Value, error) {
	keys, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	val := value.None
	if a[1] != nil {
		val = a[1]
	}
	d := &value.Dict{}
	for _, k := range keys {
		if err := d.Set(k, val); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func dictViewOf(kind value.ViewKind) func(*value.Thread, value.Value, []value.Value) (value.Value, error) {
	return func(_ *value.Thread, self value.Value, _ []value.Value) (value.Value, error) {
		return value.NewView(self.(*value.Dict), kind), nil
	}
}

// rangeAttr returns the attributes of a range.
func rangeAttr(r *value.Range, name string) value.Value {
	switch name {
	case "start":
		return value.Int(r.Start)
	case "stop":
		return value.Int(r.Stop)
	case "step":
		return value.Int(r.Step)
	}
	return nil
}

// numberAttr returns the attributes of numbers that templates can use.
func numberAttr(v value.Value, name string) value.Value {
	fn := func(f func() value.Value) value.Value {
		call := func(*value.Thread, value.Value, []value.Value) (value.Value, error) { return f(), nil }
		return (&method{class: v.Type(), name: name, call: call}).bind(v)
	}
	f, isFloat := v.(value.Float)
	switch {
	case name == "real":
		if _, ok := v.(value.Bool); ok {
			n, _ := value.AsInt64(v)
			return value.Int(n)
		}
		return v
	case name == "imag" && isFloat:
		return value.Float(0)
	case name == "imag":
		return value.Int(0)
	case name == "conjugate":
		return fn(func() value.Value { return v })
	case name == "is_integer" && isFloat:
		return fn(func() value.Value {
			return value.Bool(!math.IsInf(float64(f), 0) && f == value.Float(math.Trunc(float64(f))))
		})
	case isFloat:
		return nil
	}
	n, _ := value.AsInt(v)
	switch name {
	case "numerator":
		return value.NewInt(n)
	case "denominator":
		return value.Int(1)
	case "bit_length":
		return fn(func() value.Value { return value.Int(n.BitLen()) })
	case "bit_count":
		return fn(func() value.Value {
			count := 0
			for i, a := 0, new(big.Int).Abs(n); i < a.BitLen(); i++ {
				count += int(a.Bit(i))
			}
			return value.Int(count)
		})
	}
	return nil
}
