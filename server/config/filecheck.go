package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
)

// fileCheck holds a file against the types of its settings before the decoder reads it: the decoder's errors name Go's
// types, and not always a line.
type fileCheck struct {
	name  string
	lines map[string]int
	wrong []fault
}

// fault is what is wrong with a file, and in which line.
type fault struct {
	line int
	text string
}

// checkFile returns every key of given, which is text decoded, that does not exist or has a value of another type.
func checkFile(name string, text []byte, given map[string]any) error {
	c := &fileCheck{name: name, lines: lines(text)}
	c.table("", given, reflect.TypeFor[Config]())
	slices.SortFunc(c.wrong, func(a, b fault) int {
		return cmp.Or(a.line-b.line, strings.Compare(a.text, b.text))
	})
	var errs []error
	for _, f := range c.wrong {
		errs = append(errs, fmt.Errorf("%s:%d: %s", name, f.line, f.text))
	}
	return errors.Join(errs...)
}

// refuse notes what is wrong with the key at.
func (c *fileCheck) refuse(at, format string, args ...any) {
	c.wrong = append(c.wrong, fault{c.line(at), fmt.Sprintf(format, args...)})
}

// line returns where a key is; a table without a head of its own is where its first key is.
func (c *fileCheck) line(at string) int {
	if line := c.lines[at]; line > 0 {
		return line
	}
	first := 0
	for key, line := range c.lines {
		if (strings.HasPrefix(key, at+".") || strings.HasPrefix(key, at+"[")) && (first == 0 || line < first) {
			first = line
		}
	}
	return first
}

// table checks the keys of a table, which is called at, against the fields of t.
func (c *fileCheck) table(at string, given map[string]any, t reflect.Type) {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		if key := f.Tag.Get("toml"); key != "-" {
			fields[key] = f.Type
		}
	}
	if t == reflect.TypeFor[Model]() {
		for _, alias := range weightsAliases {
			fields[alias] = reflect.TypeFor[string]()
		}
	}
	for key, value := range given {
		name := strings.ToLower(key) // the decoder takes keys in any case
		full := strings.TrimPrefix(at+"."+key, ".")
		if want, ok := fields[name]; ok {
			c.value(full, value, want)
			continue
		}
		plain := withoutIndexes(full)
		hint := Suggest(plain, append(Keys(), sections()...))
		if names := settingNames(t); hint == "" && at != "" && len(names) <= maxNames {
			hint = "; the keys of " + withoutIndexes(at) + " are " + strings.Join(names, ", ")
		}
		c.refuse(full, "unknown key %s%s", trim(plain), hint)
	}
}

// maxNames bounds how many keys an error lists.
const maxNames = 12

// settingNames returns the keys of a section in their order.
func settingNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		names = append(names, f.Tag.Get("toml"))
	}
	return names
}

// value checks the value of the key at.
func (c *fileCheck) value(at string, given any, want reflect.Type) {
	table, isTable := given.(map[string]any)
	_, isList := given.([]any)
	switch {
	case want == reflect.TypeFor[Model]() && isList: // the blocks [[model]], which Config has elsewhere
		c.blocks(at, given, want)
	case want.Kind() == reflect.Struct:
		if !isTable {
			c.refuse(at, "%s must be a section, written [%s], given %s", at, withoutIndexes(at), shownValue(at, given))
			return
		}
		c.table(at, table, want)
	case want.Kind() == reflect.Slice && want.Elem().Kind() == reflect.Struct:
		c.blocks(at, given, want.Elem())
	default:
		if text := wanted(given, want); text != "" {
			c.refuse(at, "%s must be %s, given %s", at, text, shownValue(at, given))
		}
	}
}

// blocks checks a list of tables.
func (c *fileCheck) blocks(at string, given any, want reflect.Type) {
	list, ok := given.([]any)
	noTable := func(one any) bool { _, table := one.(map[string]any); return !table }
	if !ok || slices.ContainsFunc(list, noTable) {
		c.refuse(at, "%s must be blocks, each written [[%s]], given %s", at, at, shownValue(at, given))
		return
	}
	for i, one := range list {
		c.value(fmt.Sprintf("%s[%d]", at, i), one, want)
	}
}

// wanted says what a value of type want is, where given is none; otherwise it returns "".
func wanted(given any, want reflect.Type) string {
	text, isText := given.(string)
	_, whole := given.(int64)
	_, real := given.(float64)
	ok, says := false, ""
	switch want {
	case reflect.TypeFor[Size]():
		ok, says = whole || isText && parses(want, text), `a size such as "512MiB", a number of bytes, or "auto"`
	case reflect.TypeFor[Duration]():
		ok, says = whole || isText && parses(want, text), `a duration with its unit such as "90s" or "50ms", or a whole number of seconds`
	case reflect.TypeFor[Wait]():
		ok, says = isText && parses(want, text), `a duration above 0 such as "2ms", or "auto"`
	case reflect.TypeFor[slog.Level]():
		ok = isText && slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text))
		says = "debug, info, warn or error"
	case reflect.TypeFor[Table]():
		_, ok = given.(map[string]any)
		says = "a table"
	case reflect.TypeFor[map[string]string]():
		table, isTable := given.(map[string]any)
		ok, says = isTable, `a table of strings such as { A = "b" }`
		for _, one := range table {
			_, isText := one.(string)
			ok = ok && isText
		}
	case reflect.TypeFor[[]string]():
		ok, says = texts(given), `a list of strings such as ["a", "b"]`
	default:
		switch want.Kind() {
		case reflect.String:
			ok, says = isText, "a string"
		case reflect.Bool:
			_, ok = given.(bool)
			says = "true or false"
		case reflect.Int, reflect.Int64:
			ok, says = whole, "a whole number"
		case reflect.Float64:
			ok, says = whole || real, "a number"
		default:
			panic("BUG: a setting of type " + want.String())
		}
	}
	if ok {
		return ""
	}
	return says
}

// parses reports whether text is a value of a type that reads its own text.
func parses(t reflect.Type, text string) bool {
	return reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) == nil
}

// texts reports whether a value is a list of strings.
func texts(given any) bool {
	list, ok := given.([]any)
	return ok && !slices.ContainsFunc(list, func(one any) bool { _, text := one.(string); return !text })
}

// shownValue is a value for an error, without secrets.
func shownValue(at string, given any) string {
	switch given := given.(type) {
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	case string:
		if isSecret(lastPart(at)) {
			return "a string"
		}
		return fmt.Sprintf("%q", trim(Shown(shownAs(lastPart(at), given))))
	}
	if isSecret(lastPart(at)) {
		return "another type"
	}
	return fmt.Sprint(given)
}

// withoutIndexes turns plugin[0].name into plugin.name.
func withoutIndexes(key string) string {
	var b strings.Builder
	for len(key) > 0 {
		before, after, ok := strings.Cut(key, "[")
		b.WriteString(before)
		if !ok {
			break
		}
		_, key, _ = strings.Cut(after, "]")
	}
	return b.String()
}
