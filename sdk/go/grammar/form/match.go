package form

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrForm is the error of Match for bytes that are not a valid form or that it does not support.
var ErrForm = errors.New("not a form that can be matched")

// Match reports whether a text matches an encoded grammar, for tests of grammar
// plugins. It is slow: it follows the definition of each node, with a table of all
// substrings of the text. A Token node matches its text. For a form that names tokens
// by their ids the error is ErrForm.
func Match(form []byte, text string) (bool, error) {
	r := &reader{form: form}
	if string(r.take(5)) != "tgir\x01" {
		return false, fmt.Errorf("%w: it does not begin with tgir and version 1", ErrForm)
	}
	m := &matcher{text: text}
	for range r.count() {
		m.regexes = append(m.regexes, m.regex(r))
	}
	exprs := make([]node, 0)
	for range r.count() {
		exprs = append(exprs, r.expr())
	}
	bodies := make([]uint32, 0)
	for range r.count() {
		r.text()
		bodies = append(bodies, r.number())
	}
	start := r.number()
	if r.err == nil && (len(r.form) > 0 || int(start) >= len(bodies)) {
		r.fail("%d bytes follow, start is %d of %d rules", len(r.form), start, len(bodies))
	}
	if r.err != nil {
		return false, r.err
	}
	rules := make([]table, len(bodies))
	for i := range rules {
		rules[i] = m.none()
	}
	for changed := true; changed; { // until no table of a rule grows
		changed = false
		all := make([]table, 0, len(exprs))
		for _, e := range exprs {
			all = append(all, m.expr(e, all, rules))
		}
		for i, body := range bodies {
			if !slices.EqualFunc(rules[i], all[body], slices.Equal[[]bool]) {
				rules[i], changed = all[body], true
			}
		}
	}
	return rules[start][0][len(text)], nil
}

// table has, for each substring of the text by its start and its end, whether a
// node matches it.
type table [][]bool

type matcher struct {
	text    string
	regexes []table
}

func (m *matcher) none() table {
	t := make(table, len(m.text)+1)
	for i := range t {
		t[i] = make([]bool, len(m.text)+1)
	}
	return t
}

// where returns the table of the substrings from each start to f(start); -1 means none.
func (m *matcher) where(f func(from int) (to int)) table {
	t := m.none()
	for from := range t {
		if to := f(from); to >= from && to <= len(m.text) {
			t[from][to] = true
		}
	}
	return t
}

func (m *matcher) empty() table { return m.where(func(from int) int { return from }) }

func (m *matcher) literal(text string) table {
	return m.where(func(from int) int {
		if len(m.text)-from >= len(text) && m.text[from:from+len(text)] == text {
			return from + len(text)
		}
		return -1
	})
}

// each combines tables into one, substring by substring.
func (m *matcher) each(first bool, list []table, join func(a, b bool) bool) table {
	t := m.none()
	for from := range t {
		for to := range t[from] {
			t[from][to] = first && from <= to
			for _, x := range list {
				t[from][to] = join(t[from][to], x[from][to])
			}
		}
	}
	return t
}

func either(a, b bool) bool { return a || b }
func both(a, b bool) bool   { return a && b }

func (m *matcher) union(list ...table) table { return m.each(false, list, either) }

// then returns the table of a followed by b.
func (m *matcher) then(a, b table) table {
	t := m.none()
	for from := range t {
		for mid := from; mid < len(t); mid++ {
			if a[from][mid] {
				for to := mid; to < len(t); to++ {
					t[from][to] = t[from][to] || b[mid][to]
				}
			}
		}
	}
	return t
}

func (m *matcher) chain(list []table) table {
	t := m.empty()
	for _, x := range list {
		t = m.then(t, x)
	}
	return t
}

// repeat returns the table of x least to most times. After more repetitions than the
// text has bytes, another one changes nothing, because one of them was empty.
func (m *matcher) repeat(x table, least, most uint32) table {
	all, now := m.none(), m.empty()
	long := uint32(len(m.text)) + 1
	for n := uint32(0); ; n++ {
		if n >= least || n > long {
			all = m.union(all, now)
		}
		if n == most || n > long && n >= min(least, long+1) {
			return all
		}
		now = m.then(now, x)
	}
}

// regex reads a node and makes its table.
func (m *matcher) regex(r *reader) table {
	switch op := r.byte(); op {
	case opBytes:
		list := r.pairs()
		return m.where(func(from int) int {
			if from < len(m.text) && within(list, uint32(m.text[from])) {
				return from + 1
			}
			return -1
		})
	case opChars:
		list := r.pairs()
		return m.where(func(from int) int {
			c, n := utf8.DecodeRuneInString(m.text[from:])
			if n == 0 || c == utf8.RuneError && n == 1 || !within(list, uint32(c)) {
				return -1
			}
			return from + n
		})
	case opLiteral:
		return m.literal(r.text())
	case opLiterals:
		t := m.none()
		for range r.count() {
			t = m.union(t, m.literal(r.text()))
		}
		return t
	case opRepeat:
		x := r.tables(1, m.regexes)
		least, most := r.bounds()
		return m.repeat(m.union(x...), least, most)
	case opNot:
		return m.each(true, r.tables(1, m.regexes), func(a, b bool) bool { return a && !b })
	case opConcat:
		return m.chain(r.tables(r.count(), m.regexes))
	case opUnion:
		return m.union(r.tables(r.count(), m.regexes)...)
	case opAnd:
		return m.each(true, r.tables(r.count(), m.regexes), both)
	default:
		r.fail("regular expression of kind %d", op)
		return m.none()
	}
}

// node is an encoded expression.
type node struct {
	kind        byte
	refs        []uint32
	name        string
	least, most uint32
}

// expr makes the table of an expression. before has the tables of the expressions before it.
func (m *matcher) expr(e node, before, rules []table) table {
	from := before
	switch e.kind {
	case kindTerminal:
		from = m.regexes
	case kindRule:
		from = rules
	case kindTokenText:
		return m.literal(e.name)
	}
	list := make([]table, len(e.refs))
	for i, ref := range e.refs {
		if list[i] = m.none(); int(ref) < len(from) {
			list[i] = from[ref]
		}
	}
	switch e.kind {
	case kindSeq:
		return m.chain(list)
	case kindTimes:
		return m.repeat(list[0], e.least, e.most)
	}
	return m.union(list...)
}

// reader decodes a form. After its first error it returns only zero values.
type reader struct {
	form []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err, r.form = fmt.Errorf("%w: %s", ErrForm, fmt.Sprintf(format, args...)), nil
	}
}

func (r *reader) take(n int) []byte {
	if n > len(r.form) {
		r.fail("it ends too early")
		return nil
	}
	b := r.form[:n]
	r.form = r.form[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) number() uint32 {
	v, n := binary.Uvarint(r.form)
	if n <= 0 || v > Unbounded {
		r.fail("a number has no end, or is too large")
		return 0
	}
	r.form = r.form[n:]
	return uint32(v)
}

// count reads the length of a list, whose members have at least one byte each.
func (r *reader) count() uint32 {
	n := r.number()
	if int64(n) > int64(len(r.form)) {
		r.fail("%d members in %d bytes", n, len(r.form))
		return 0
	}
	return n
}

func (r *reader) text() string { return string(r.take(int(r.number()))) }

func (r *reader) numbers(n uint32) (list []uint32) {
	for range n {
		if r.err == nil {
			list = append(list, r.number())
		}
	}
	return list
}

func (r *reader) pairs() (list [][2]uint32) {
	for all := r.numbers(2 * r.count()); len(all) > 1; all = all[2:] {
		list = append(list, [2]uint32{all[0], all[1]})
	}
	return list
}

// bounds reads what Builder.bounds writes.
func (r *reader) bounds() (least, most uint32) {
	least = r.number()
	return least, r.number() - 1
}

func (r *reader) tables(n uint32, of []table) (list []table) {
	for _, i := range r.numbers(n) {
		if int(i) >= len(of) {
			r.fail("a node refers to node %d of %d", i, len(of))
			return nil
		}
		list = append(list, of[i])
	}
	return list
}

func (r *reader) expr() (e node) {
	switch e.kind = r.byte(); e.kind {
	case kindTerminal:
		e.refs, e.name = r.numbers(1), r.text()
	case kindRule:
		e.refs = r.numbers(1)
	case kindSeq, kindChoice:
		e.refs = r.numbers(r.count())
	case kindTimes:
		e.refs = r.numbers(1)
		e.least, e.most = r.bounds()
	case kindTokenText:
		e.name = r.text()
	default:
		r.fail("expression of kind %d", e.kind)
	}
	return e
}

func within(list [][2]uint32, v uint32) bool {
	return slices.ContainsFunc(list, func(p [2]uint32) bool { return p[0] <= v && v <= p[1] })
}
