package jinja

import (
	"strings"
	"unicode/utf8"
)

// filters are those of jinja2, with the tojson of transformers, but for leftOut.
var filters map[string]*function

func init() {
	filters = map[string]*function{
		"abs":            native("abs", "x", filterAbs),
		"attr":           def("do_attr", 1, "obj name", filterAttr),
		"batch":          def("do_batch", 0, "value linecount fill_with=", filterBatch),
		"capitalize":     def("do_capitalize", 0, "s", textFilter(func(s *Str) *Str { return s.mixedMap(capitalize) })),
		"center":         def("do_center", 0, "value width=", filterCenter),
		"count":          native("len", "x", filterLength),
		"d":              def("do_default", 0, "value default_value= boolean=", filterDefault),
		"default":        def("do_default", 0, "value default_value= boolean=", filterDefault),
		"dictsort":       def("do_dictsort", 0, "value case_sensitive= by= reverse=", filterDictSort),
		"e":              native("escape", "s", func(st *state, a []Value) (Value, error) { return st.htmlEscape(a[0]) }),
		"escape":         native("escape", "s", func(st *state, a []Value) (Value, error) { return st.htmlEscape(a[0]) }),
		"filesizeformat": def("do_filesizeformat", 0, "value binary=", filterFileSize),
		"first":          def("sync_do_first", 1, "seq", filterFirst),
		"float":          def("do_float", 0, "value default=", filterFloat),
		"forceescape":    def("do_forceescape", 0, "value", filterForceEscape),
		"format":         def("do_format", 0, "value *args **kwargs", filterFormat),
		"groupby":        def("sync_do_groupby", 1, "value attribute default= case_sensitive=", filterGroupBy),
		"indent":         def("do_indent", 0, "s width= first= blank=", filterIndent),
		"int":            def("do_int", 0, "value default= base=", filterInt),
		"items":          def("do_items", 0, "value", filterItems),
		"join":           def("sync_do_join", 1, "value d= attribute=", filterJoin),
		"last":           def("do_last", 1, "seq", filterLast),
		"length":         native("len", "x", filterLength),
		"list":           def("sync_do_list", 0, "value", filterList),
		"lower":          def("do_lower", 0, "s", textFilter(func(s *Str) *Str { return s.mixedMap(lower) })),
		"map":            def("sync_do_map", 1, "value *args **kwargs", filterMap),
		"max":            def("do_max", 1, "value case_sensitive= attribute=", filterExtreme(cmpGt)),
		"min":            def("do_min", 1, "value case_sensitive= attribute=", filterExtreme(cmpLt)),
		"pprint":         def("do_pprint", 0, "value", filterPprint),
		"reject":         def("sync_do_reject", 1, "value *args **kwargs", filterSelect(false, false)),
		"rejectattr":     def("sync_do_rejectattr", 1, "value *args **kwargs", filterSelect(false, true)),
		"replace":        def("do_replace", 1, "s old new count=", filterReplace),
		"reverse":        def("do_reverse", 0, "value", filterReverse),
		"round":          def("do_round", 0, "value precision= method=", filterRound),
		"safe":           def("do_mark_safe", 0, "value", filterSafe),
		"select":         def("sync_do_select", 1, "value *args **kwargs", filterSelect(true, false)),
		"selectattr":     def("sync_do_selectattr", 1, "value *args **kwargs", filterSelect(true, true)),
		"slice":          def("sync_do_slice", 0, "value slices fill_with=", filterSlice),
		"sort":           def("do_sort", 1, "value reverse= case_sensitive= attribute=", filterSort),
		"string":         def("soft_str", 0, "s", textFilter(func(s *Str) *Str { return s })),
		"striptags":      def("do_striptags", 0, "value", filterStripTags),
		"sum":            def("sync_do_sum", 1, "iterable attribute= start=", filterSum),
		"title":          def("do_title", 0, "s", textFilter(func(s *Str) *Str { return s.mixedMap(wordTitle) })),
		"tojson":         def("_cached_compile_jinja_template.<locals>.tojson", 0, "x ensure_ascii= indent= separators= sort_keys=", filterToJSON),
		"trim":           def("do_trim", 0, "value chars=", filterTrim),
		"truncate":       def("do_truncate", 1, "s length= killwords= end= leeway=", filterTruncate),
		"unique":         def("sync_do_unique", 1, "value case_sensitive= attribute=", filterUnique),
		"upper":          def("do_upper", 0, "s", textFilter(func(s *Str) *Str { return s.mapRuns(upper) })),
		"urlencode":      def("do_urlencode", 0, "value", filterURLEncode),
		"wordcount":      def("do_wordcount", 0, "s", filterWordCount),
		"wordwrap":       def("do_wordwrap", 1, "s width= break_long_words= wrapstring= break_on_hyphens=", filterWordwrap),
		"xmlattr":        def("do_xmlattr", 1, "d autospace=", filterXMLAttr),
	}
	for name, f := range filters {
		f.slow = perCharacter[name]
	}
}

// textFilter makes a filter of a function on strings; other values become strings first.
func textFilter(f func(*Str) *Str) func(*state, []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		s, err := st.str(a[0])
		if err != nil {
			return nil, err
		}
		out := f(s)
		if s.safe {
			out = out.markup()
		}
		return out, st.grow(int64(len(s.s)))
	}
}

// flag reads an optional argument that is used as a truth value.
func (st *state) flag(v Value, def bool) (bool, error) {
	if v == nil {
		return def, nil
	}
	return truth(st, v)
}

func filterLength(st *state, a []Value) (Value, error) {
	n, err := st.length(a[0])
	return Int(n), err
}

func filterDefault(st *state, a []Value) (Value, error) {
	def := a[1]
	if def == nil {
		def = emptyStr
	}
	if _, ok := a[0].(*Undefined); ok {
		return def, nil
	}
	loose, err := st.flag(a[2], false)
	if err != nil || !loose {
		return a[0], err
	}
	ok, err := truth(st, a[0])
	if err != nil || ok {
		return a[0], err
	}
	return def, nil
}

func filterAttr(st *state, a []Value) (Value, error) {
	name, ok := a[1].(*Str)
	if !ok {
		return nil, typeError("attribute name must be string, not '%s'", className(a[1]))
	}
	v, err := st.attribute(a[0], name.s)
	if v == nil && err == nil {
		return undefinedAttr(a[0], name), nil
	}
	return v, err
}

func filterTrim(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	if a[1] == nil || a[1] == none {
		return s.trimmed(nil, true, true), nil
	}
	cut, ok := a[1].(*Str)
	if !ok {
		return nil, typeError("strip arg must be None or str")
	}
	return s.trimmed(cut, true, true), nil
}

func filterReplace(st *state, a []Value) (Value, error) {
	var s [3]*Str
	for i := range s {
		var err error
		if s[i], err = st.str(a[i]); err != nil {
			return nil, err
		}
	}
	n := int64(-1)
	if a[3] != nil && a[3] != none {
		var err error
		if n, err = intArg(a[3]); err != nil {
			return nil, err
		}
	}
	return st.replace(s[0].plain(), s[1], s[2], n)
}

func filterCenter(st *state, a []Value) (Value, error) {
	width := int64(80)
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	if a[1] != nil {
		if width, err = intArg(a[1]); err != nil {
			return nil, err
		}
	}
	return st.pad(s, width, text(" "), func(gap, width int64) int64 { return gap/2 + gap&width&1 })
}

// wordTitle is jinja2's title filter: words begin after white space and -({[<.
func wordTitle(s string) string {
	var b strings.Builder
	breaks := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if breaks(r) {
			b.WriteString(s[:n])
			s = s[n:]
			continue
		}
		end := strings.IndexFunc(s, breaks)
		if end < 0 {
			end = len(s)
		}
		b.WriteString(upper(s[:n]))
		b.WriteString(lower(s[n:end]))
		s = s[end:]
	}
	return b.String()
}

// indentError is what s += newline and s.splitlines() raise for other values.
func indentError(v Value) error {
	switch v.(type) {
	case *List:
		return raise("AttributeError", "'list' object has no attribute 'splitlines'")
	case *Tuple:
		return typeError(`can only concatenate tuple (not "str") to tuple`)
	}
	return typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.pyType())
}

func filterIndent(st *state, a []Value) (Value, error) {
	s, ok := a[0].(*Str)
	if !ok {
		if u, undef := a[0].(*Undefined); undef {
			return nil, u.err()
		}
		return nil, indentError(a[0])
	}
	pad := text("    ")
	if a[1] != nil {
		if p, ok := a[1].(*Str); ok {
			pad = p
		} else {
			v, err := st.multiply(text(" "), a[1])
			if err != nil {
				return nil, err
			}
			pad = v.(*Str)
		}
	}
	first, err := st.flag(a[2], false)
	if err != nil {
		return nil, err
	}
	blankToo, err := st.flag(a[3], false)
	if err != nil {
		return nil, err
	}
	lines := join2(s, text("\n")).lines(false)
	var w sbuf
	for i, l := range lines {
		line := l.(*Str)
		if err := st.grow(int64(len(line.s) + len(pad.s))); err != nil {
			return nil, err
		}
		if i > 0 {
			w.text("\n")
		}
		if i == 0 && first || i > 0 && (line.s != "" || blankToo) {
			w.str(pad)
		}
		w.str(line)
	}
	return w.done(), nil
}

func filterTruncate(st *state, a []Value) (Value, error) {
	end, leeway, length := text("..."), int64(5), int64(255)
	if a[3] != nil {
		var ok bool
		if end, ok = a[3].(*Str); !ok {
			return nil, typeError("object of type '%s' has no len()", className(a[3]))
		}
	}
	var err error
	if a[4] != nil && a[4] != none {
		if leeway, err = intArg(a[4]); err != nil {
			return nil, err
		}
	}
	if length, err = optInt(a[1], length); err != nil {
		return nil, err
	}
	kill, err := st.flag(a[2], false)
	if err != nil {
		return nil, err
	}
	keep := length - int64(end.count())
	if keep < 0 {
		return nil, raise("AssertionError", "expected length >= %d, got %d", end.count(), length)
	}
	if leeway < 0 {
		return nil, raise("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	n, err := st.length(a[0])
	if err != nil {
		return nil, err
	}
	if n <= length+leeway {
		return a[0], nil
	}
	s, ok := a[0].(*Str)
	if !ok {
		return nil, typeError("unhashable type: 'slice'")
	}
	cut := s.sub(0, s.byteAt(int(keep)))
	if !kill {
		if i := strings.LastIndexByte(cut.s, ' '); i >= 0 {
			cut = cut.sub(0, i)
		}
	}
	return join2(cut, end), nil
}

func filterWordCount(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	n, in := 0, false
	for _, r := range s.s {
		w := isWord(r)
		if w && !in {
			n++
		}
		in = w
	}
	return Int(n), nil
}

func filterFormat(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	pos, kw := a[1].(*Tuple), a[2].(*Dict)
	if len(pos.items) > 0 && kw.len() > 0 {
		return nil, raise("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	if kw.len() > 0 {
		return st.percent(s, kw)
	}
	return st.percent(s, pos)
}

func filterSafe(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	return s.markup(), nil
}

func filterForceEscape(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	return st.forceEscape(s.plain())
}
