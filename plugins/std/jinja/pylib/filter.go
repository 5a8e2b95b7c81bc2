package pylib

import (
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/format"
	"tgi/plugins/std/jinja/value"
)

// Filter returns a filter of jinja2, or the tojson of transformers. It is nil if there
// is none of this name, or if package interp refuses it.
func Filter(name string) *Function { return filters[name] }

var filters map[string]*Function

func init() {
	filters = map[string]*Function{
		"abs":            native("abs", "x", filterAbs),
		"attr":           def("do_attr", 1, "obj name", filterAttr),
		"batch":          def("do_batch", 0, "value linecount fill_with=", filterBatch),
		"capitalize":     def("do_capitalize", 0, "s", mapWhole(chars.Capitalize)),
		"center":         def("do_center", 0, "value width=", filterCenter),
		"count":          native("len", "x", filterLength),
		"d":              def("do_default", 0, "value default_value= boolean=", filterDefault),
		"default":        def("do_default", 0, "value default_value= boolean=", filterDefault),
		"dictsort":       def("do_dictsort", 0, "value case_sensitive= by= reverse=", filterDictSort),
		"e":              native("escape", "s", filterEscape),
		"escape":         native("escape", "s", filterEscape),
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
		"lower":          def("do_lower", 0, "s", mapWhole(chars.Lower)),
		"map":            def("sync_do_map", 1, "value *args **kwargs", filterMap),
		"max":            def("do_max", 1, "value case_sensitive= attribute=", filterExtreme(value.Gt)),
		"min":            def("do_min", 1, "value case_sensitive= attribute=", filterExtreme(value.Lt)),
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
		"string":         def("soft_str", 0, "s", textFilter(func(s *value.Str) *value.Str { return s })),
		"striptags":      def("do_striptags", 0, "value", filterStripTags),
		"sum":            def("sync_do_sum", 1, "iterable attribute= start=", filterSum),
		"title":          def("do_title", 0, "s", mapWhole(wordTitle)),
		"tojson": def("_cached_compile_jinja_template.<locals>.tojson", 0,
			"x ensure_ascii= indent= separators= sort_keys=", filterToJSON),
		"trim":      def("do_trim", 0, "value chars=", filterTrim),
		"truncate":  def("do_truncate", 1, "s length= killwords= end= leeway=", filterTruncate),
		"unique":    def("sync_do_unique", 1, "value case_sensitive= attribute=", filterUnique),
		"upper":     def("do_upper", 0, "s", mapRuns(chars.Upper)),
		"urlencode": def("do_urlencode", 0, "value", filterURLEncode),
		"wordcount": def("do_wordcount", 0, "s", filterWordCount),
		"wordwrap": def("do_wordwrap", 1, "s width= break_long_words= wrapstring= break_on_hyphens=",
			filterWordwrap),
		"xmlattr": def("do_xmlattr", 1, "d autospace=", filterXMLAttr),
	}
	for name, f := range filters {
		f.perCharacter = perCharacterNames[name]
	}
}

// textFilter makes a filter of a function on strings. It converts other values to strings first.
func textFilter(f func(*value.Str) *value.Str) callFunc {
	return func(th *value.Thread, a []value.Value) (value.Value, error) {
		s, err := th.Str(a[0])
		if err != nil {
			return nil, err
		}
		out := f(s)
		if s.Safe() {
			out = out.Markup()
		}
		return out, th.Grow(int64(len(s.String())))
	}
}

// mapWhole makes a filter of a function on text that reads neighbouring characters.
func mapWhole(f func(string) string) callFunc {
	return textFilter(func(s *value.Str) *value.Str { return s.MapWhole(f) })
}

// mapRuns makes a filter of a function on text that treats each character by itself.
func mapRuns(f func(string) string) callFunc {
	return textFilter(func(s *value.Str) *value.Str { return s.MapRuns(f) })
}

// flagArg reads an optional argument that is used as a truth value.
func flagArg(th *value.Thread, v value.Value, def bool) (bool, error) {
	if v == nil {
		return def, nil
	}
	return th.Truth(v)
}

func filterLength(th *value.Thread, a []value.Value) (value.Value, error) {
	n, err := th.Length(a[0])
	return value.Int(n), err
}

func filterDefault(th *value.Thread, a []value.Value) (value.Value, error) {
	def := a[1]
	if def == nil {
		def = value.Empty
	}
	if _, ok := a[0].(*value.Undefined); ok {
		return def, nil
	}
	loose, err := flagArg(th, a[2], false)
	if err != nil || !loose {
		return a[0], err
	}
	ok, err := th.Truth(a[0])
	if err != nil || ok {
		return a[0], err
	}
	return def, nil
}

func filterAttr(th *value.Thread, a []value.Value) (value.Value, error) {
	name, ok := a[1].(*value.Str)
	if !ok {
		return nil, value.TypeError("attribute name must be string, not '%s'", value.ClassName(a[1]))
	}
	v, err := attribute(th, a[0], name.String())
	if v == nil && err == nil {
		return value.UndefinedAttr(a[0], name), nil
	}
	return v, err
}

func filterTrim(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	if a[1] == nil || a[1] == value.None {
		return s.Trim(nil, true, true), nil
	}
	cut, ok := a[1].(*value.Str)
	if !ok {
		return nil, value.TypeError("strip arg must be None or str")
	}
	return s.Trim(cut, true, true), nil
}

func filterReplace(th *value.Thread, a []value.Value) (value.Value, error) {
	var s [3]*value.Str
	for i := range s {
		var err error
		if s[i], err = th.Str(a[i]); err != nil {
			return nil, err
		}
	}
	n := int64(-1)
	if a[3] != nil && a[3] != value.None {
		var err error
		if n, err = intArg(a[3]); err != nil {
			return nil, err
		}
	}
	return replaceStr(th, s[0].Plain(), s[1], s[2], n)
}

func filterCenter(th *value.Thread, a []value.Value) (value.Value, error) {
	width := int64(80)
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	if a[1] != nil {
		if width, err = intArg(a[1]); err != nil {
			return nil, err
		}
	}
	return padStr(th, s, width, value.Text(" "), func(gap, width int64) int64 { return gap/2 + gap&width&1 })
}

// wordTitle is jinja2's title filter: words begin after white space and -({[<.
func wordTitle(s string) string {
	var b strings.Builder
	breaks := func(r rune) bool { return chars.IsSpace(r) || strings.ContainsRune("-({[<", r) }
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
		b.WriteString(chars.Upper(s[:n]))
		b.WriteString(chars.Lower(s[n:end]))
		s = s[end:]
	}
	return b.String()
}

// indentError is the error of s += newline and s.splitlines() for a value that is not a string.
func indentError(v value.Value) error {
	switch v.(type) {
	case *value.List:
		return value.Raise("AttributeError", "'list' object has no attribute 'splitlines'")
	case *value.Tuple:
		return value.TypeError(`can only concatenate tuple (not "str") to tuple`)
	}
	return value.TypeError("unsupported operand type(s) for +=: '%s' and 'str'", v.Type())
}

func filterIndent(th *value.Thread, a []value.Value) (value.Value, error) {
	s, ok := a[0].(*value.Str)
	if !ok {
		if u, undef := a[0].(*value.Undefined); undef {
			return nil, u.Err()
		}
		return nil, indentError(a[0])
	}
	pad := value.Text("    ")
	if a[1] != nil {
		if p, ok := a[1].(*value.Str); ok {
			pad = p
		} else {
			v, err := multiplyValues(th, value.Text(" "), a[1])
			if err != nil {
				return nil, err
			}
			pad = v.(*value.Str)
		}
	}
	first, err := flagArg(th, a[2], false)
	if err != nil {
		return nil, err
	}
	blankToo, err := flagArg(th, a[3], false)
	if err != nil {
		return nil, err
	}
	lines := splitLines(value.Concat(s, value.Text("\n")), false)
	var w value.Buffer
	for i, l := range lines {
		line := l.(*value.Str)
		if err := th.Grow(int64(len(line.String()) + len(pad.String()))); err != nil {
			return nil, err
		}
		if i > 0 {
			w.Text("\n")
		}
		if i == 0 && first || i > 0 && (line.String() != "" || blankToo) {
			w.Str(pad)
		}
		w.Str(line)
	}
	return w.Done(), nil
}

func filterTruncate(th *value.Thread, a []value.Value) (value.Value, error) {
	end, leeway, length := value.Text("..."), int64(5), int64(255)
	if a[3] != nil {
		var ok bool
		if end, ok = a[3].(*value.Str); !ok {
			return nil, value.TypeError("object of type '%s' has no len()", value.ClassName(a[3]))
		}
	}
	var err error
	if a[4] != nil && a[4] != value.None {
		if leeway, err = intArg(a[4]); err != nil {
			return nil, err
		}
	}
	if length, err = optInt(a[1], length); err != nil {
		return nil, err
	}
	kill, err := flagArg(th, a[2], false)
	if err != nil {
		return nil, err
	}
	keep := length - int64(end.Count())
	if keep < 0 {
		return nil, value.Raise("AssertionError", "expected length >= %d, got %d", end.Count(), length)
	}
	if leeway < 0 {
		return nil, value.Raise("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	n, err := th.Length(a[0])
	if err != nil {
		return nil, err
	}
	if n <= length+leeway {
		return a[0], nil
	}
	s, ok := a[0].(*value.Str)
	if !ok {
		return nil, value.TypeError("unhashable type: 'slice'")
	}
	cut := s.Sub(0, s.ByteAt(int(keep)))
	if !kill {
		if i := strings.LastIndexByte(cut.String(), ' '); i >= 0 {
			cut = cut.Sub(0, i)
		}
	}
	return value.Concat(cut, end), nil
}

func filterWordCount(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	n, in := 0, false
	for _, r := range s.String() {
		w := chars.IsWord(r)
		if w && !in {
			n++
		}
		in = w
	}
	return value.Int(n), nil
}

func filterFormat(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	pos, kw := a[1].(*value.Tuple), a[2].(*value.Dict)
	if len(pos.Items) > 0 && kw.Len() > 0 {
		return nil, value.Raise("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	if kw.Len() > 0 {
		return format.Percent(th, s, kw)
	}
	return format.Percent(th, s, pos)
}

func filterSafe(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	return s.Markup(), nil
}

func filterEscape(th *value.Thread, a []value.Value) (value.Value, error) { return th.EscapeHTML(a[0]) }

func filterForceEscape(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	return th.ForceEscape(s.Plain())
}
