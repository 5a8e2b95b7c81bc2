package jinja

import "unicode"

// tests are jinja2's.
var tests map[string]*function

func init() {
	tests = map[string]*function{
		"odd":         def("test_odd", 0, "value", testRemainder(Int(2), Int(1))),
		"even":        def("test_even", 0, "value", testRemainder(Int(2), Int(0))),
		"divisibleby": def("test_divisibleby", 0, "value num", testDivisible),
		"in":          def("test_in", 0, "value seq", func(st *state, a []Value) (Value, error) { return boolean(st.contains(a[1], a[0])) }),
		"sameas":      def("test_sameas", 0, "value other", func(_ *state, a []Value) (Value, error) { return Bool(same(a[0], a[1])), nil }),
		"iterable":    def("test_iterable", 0, "value", testIterable),
		"filter":      def("test_filter", 1, "value", nil),
		"test":        def("test_test", 1, "value", nil),
		"lower": def("test_lower", 0, "value", testText(func(s string) bool {
			return cased(s, isLowerRune)
		})),
		"upper": def("test_upper", 0, "value", testText(func(s string) bool { return cased(s, isUpperRune) })),
	}
	tests["filter"].call = func(_ *state, a []Value) (Value, error) { return testNamed(filters)(nil, a) }
	tests["test"].call = func(_ *state, a []Value) (Value, error) { return testNamed(tests)(nil, a) }
	typeTests()
	for op, names := range map[cmpOp][]string{
		cmpEq: {"==", "eq", "equalto"}, cmpNe: {"!=", "ne"}, cmpGt: {">", "gt", "greaterthan"},
		cmpGe: {">=", "ge"}, cmpLt: {"<", "lt", "lessthan"}, cmpLe: {"<=", "le"},
	} {
		for _, n := range names {
			tests[n] = native(map[cmpOp]string{cmpEq: "eq", cmpNe: "ne", cmpGt: "gt", cmpGe: "ge", cmpLt: "lt", cmpLe: "le"}[op], "a b",
				func(st *state, a []Value) (Value, error) { return boolean(st.compare(op, a[0], a[1])) })
		}
	}
}

func boolean(b bool, err error) (Value, error) { return Bool(b), err }

// typeTests adds the tests that ask for a value's type.
func typeTests() {
	add := func(name string, f func(v Value) bool) {
		tests[name] = def("test_"+name, 0, "value", func(_ *state, a []Value) (Value, error) { return Bool(f(a[0])), nil })
	}
	add("defined", func(v Value) bool { _, ok := v.(*Undefined); return !ok })
	add("undefined", func(v Value) bool { _, ok := v.(*Undefined); return ok })
	add("none", func(v Value) bool { return v == none })
	add("boolean", func(v Value) bool { _, ok := v.(Bool); return ok })
	add("true", func(v Value) bool { return v == Bool(true) })
	add("false", func(v Value) bool { return v == Bool(false) })
	add("integer", func(v Value) bool {
		_, isBool := v.(Bool)
		_, ok := asInt(v)
		return ok && !isBool
	})
	add("float", func(v Value) bool { _, ok := v.(Float); return ok })
	add("number", isNumber)
	add("string", func(v Value) bool { _, ok := v.(*Str); return ok })
	add("mapping", func(v Value) bool { _, ok := v.(*Dict); return ok })
	add("sequence", func(v Value) bool {
		switch v.(type) {
		case *Str, *List, *Tuple, *Dict, *rangeObj, *Undefined:
			return true
		}
		return false
	})
	add("escaped", func(v Value) bool { s, ok := v.(*Str); return ok && s.safe })
	tests["callable"] = native("callable", "x", func(_ *state, a []Value) (Value, error) {
		switch a[0].(type) {
		case *builtin, *Macro, *joiner, *loopContext, *Undefined:
			return Bool(true), nil
		}
		return Bool(false), nil
	})
}

func testText(f func(string) bool) func(*state, []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		s, err := st.str(a[0])
		if err != nil {
			return nil, err
		}
		return Bool(f(s.s)), nil
	}
}

func testRemainder(by, want Value) func(*state, []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		r, err := st.binaryOp(tMod, a[0], by)
		if err != nil {
			return nil, err
		}
		return boolean(st.equal(r, want, 0))
	}
}

func testDivisible(st *state, a []Value) (Value, error) {
	r, err := st.binaryOp(tMod, a[0], a[1])
	if err != nil {
		return nil, err
	}
	return boolean(st.equal(r, Int(0), 0))
}

func testIterable(_ *state, a []Value) (Value, error) {
	switch a[0].(type) {
	case *Str, *List, *Tuple, *Dict, *dictView, *rangeObj, *generator, *Undefined, *loopContext:
		return Bool(true), nil
	}
	return Bool(false), nil
}

func testNamed(table map[string]*function) func(*state, []Value) (Value, error) {
	return func(_ *state, a []Value) (Value, error) {
		if _, err := hashKey(a[0]); err != nil {
			return nil, err
		}
		s, ok := a[0].(*Str)
		return Bool(ok && table[s.s] != nil), nil
	}
}

// same is Python's is, where equal strings and numbers count as one object:
// CPython shares the small ones and the constants.
func same(a, b Value) bool {
	if x, ok := a.(*Str); ok {
		y, ok := b.(*Str)
		return ok && x.s == y.s && (x == y || len(x.s) < 2 || !containsSpace(x.s))
	}
	if isNumber(a) || isNumber(b) {
		return a == b
	}
	if _, ok := a.(*Undefined); ok {
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
