package pylib

import (
	"unicode"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// Test returns a test of jinja2, or nil if there is none of this name.
func Test(name string) *Function { return tests[name] }

var tests map[string]*Function

func init() {
	tests = map[string]*Function{
		"odd":         def("test_odd", 0, "value", testRemainder(value.Int(2), value.Int(1))),
		"even":        def("test_even", 0, "value", testRemainder(value.Int(2), value.Int(0))),
		"divisibleby": def("test_divisibleby", 0, "value num", testDivisible),
		"in":          def("test_in", 0, "value seq", testIn),
		"sameas":      def("test_sameas", 0, "value other", testSameAs),
		"iterable":    def("test_iterable", 0, "value", testIterable),
		"filter":      def("test_filter", 1, "value", nil),
		"test":        def("test_test", 1, "value", nil),
		"lower":       def("test_lower", 0, "value", testCase(chars.IsLower)),
		"upper":       def("test_upper", 0, "value", testCase(chars.IsUpper)),
	}
	tests["filter"].call = testNamed(filters)
	tests["test"].call = testNamed(tests)
	typeTests()
	for op, names := range map[value.CompareOp][]string{
		value.Eq: {"eq", "==", "equalto"}, value.Ne: {"ne", "!="}, value.Gt: {"gt", ">", "greaterthan"},
		value.Ge: {"ge", ">="}, value.Lt: {"lt", "<", "lessthan"}, value.Le: {"le", "<="},
	} {
		for _, n := range names {
			tests[n] = native(names[0], "a b", func(th *value.Thread, a []value.Value) (value.Value, error) {
				return boolean(th.Compare(op, a[0], a[1]))
			})
		}
	}
}

func boolean(b bool, err error) (value.Value, error) { return value.Bool(b), err }

// typeTests adds the tests that ask for a value's type.
func typeTests() {
	add := func(name string, f func(v value.Value) bool) {
		call := func(_ *value.Thread, a []value.Value) (value.Value, error) { return value.Bool(f(a[0])), nil }
		tests[name] = def("test_"+name, 0, "value", call)
	}
	add("defined", func(v value.Value) bool { _, ok := v.(*value.Undefined); return !ok })
	add("undefined", func(v value.Value) bool { _, ok := v.(*value.Undefined); return ok })
	add("none", func(v value.Value) bool { return v == value.None })
	add("boolean", func(v value.Value) bool { _, ok := v.(value.Bool); return ok })
	add("true", func(v value.Value) bool { return v == value.Bool(true) })
	add("false", func(v value.Value) bool { return v == value.Bool(false) })
	add("integer", func(v value.Value) bool {
		_, isBool := v.(value.Bool)
		_, ok := value.AsInt(v)
		return ok && !isBool
	})
	add("float", func(v value.Value) bool { _, ok := v.(value.Float); return ok })
	add("number", value.IsNumber)
	add("string", func(v value.Value) bool { _, ok := v.(*value.Str); return ok })
	add("mapping", func(v value.Value) bool { _, ok := v.(*value.Dict); return ok })
	add("sequence", func(v value.Value) bool {
		switch v.(type) {
		case *value.Str, *value.List, *value.Tuple, *value.Dict, *value.Range, *value.Undefined:
			return true
		}
		return false
	})
	add("escaped", func(v value.Value) bool { s, ok := v.(*value.Str); return ok && s.Safe() })
	tests["callable"] = native("callable", "x", func(_ *value.Thread, a []value.Value) (value.Value, error) {
		_, ok := a[0].(value.Callable)
		return value.Bool(ok), nil
	})
}

// testCase asks str.islower or str.isupper.
func testCase(right func(rune) bool) callFunc {
	return func(th *value.Thread, a []value.Value) (value.Value, error) {
		s, err := th.Str(a[0])
		if err != nil {
			return nil, err
		}
		return value.Bool(cased(s.String(), right)), nil
	}
}

func testRemainder(by, want value.Value) callFunc {
	return func(th *value.Thread, a []value.Value) (value.Value, error) {
		r, err := Binary(th, value.Mod, a[0], by)
		if err != nil {
			return nil, err
		}
		return boolean(th.Equal(r, want, 0))
	}
}

func testDivisible(th *value.Thread, a []value.Value) (value.Value, error) {
	r, err := Binary(th, value.Mod, a[0], a[1])
	if err != nil {
		return nil, err
	}
	return boolean(th.Equal(r, value.Int(0), 0))
}

func testIn(th *value.Thread, a []value.Value) (value.Value, error) {
	return boolean(th.Contains(a[1], a[0]))
}

func testSameAs(_ *value.Thread, a []value.Value) (value.Value, error) {
	return value.Bool(same(a[0], a[1])), nil
}

func testIterable(_ *value.Thread, a []value.Value) (value.Value, error) {
	return value.Bool(value.IsIterable(a[0])), nil
}

func testNamed(table map[string]*Function) callFunc {
	return func(_ *value.Thread, a []value.Value) (value.Value, error) {
		if _, err := value.HashKey(a[0]); err != nil {
			return nil, err
		}
		s, ok := a[0].(*value.Str)
		return value.Bool(ok && table[s.String()] != nil), nil
	}
}

// same is Python's is. Equal strings and numbers are the same object here, because
// CPython shares small numbers and constants.
func same(a, b value.Value) bool {
	if x, ok := a.(*value.Str); ok {
		y, ok := b.(*value.Str)
		return ok && x.String() == y.String() && (x == y || len(x.String()) < 2 || !containsSpace(x.String()))
	}
	if value.IsNumber(a) || value.IsNumber(b) {
		return a == b
	}
	if _, ok := a.(*value.Undefined); ok {
		return false
	}
	return a == b
}

func containsSpace(s string) bool {
	for _, r := range s {
		if unicode.IsSpace(r) {
			return true
		}
	}
	return false
}
