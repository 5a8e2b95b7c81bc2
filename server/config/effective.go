package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// masked stands for every secret.
const masked = "***"

// WriteEffective writes the settings as TOML, each with a comment that says
// where its value comes from: a line of the file, a variable of the
// environment, a flag, or the default. Secrets are masked.
func (l *Loaded) WriteEffective(w io.Writer) error {
	out := &printer{w: w, origins: l.origins}
	for f, v := range reflect.ValueOf(&l.Config).Elem().Fields() {
		name := f.Tag.Get("toml")
		if name == "model" && len(l.Config.ModelList) > 0 {
			v = reflect.ValueOf(l.Config.ModelList)
		}
		switch {
		case name == "-":
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				out.table("[["+name+"]]", fmt.Sprintf("%s[%d].", name, i), v.Index(i))
				out.below(name, fmt.Sprintf("%s[%d].", name, i), v.Index(i))
			}
		default:
			out.table("["+name+"]", name+".", v)
			out.below(name, name+".", v)
		}
	}
	return out.err
}

// printer writes tables until a write fails.
type printer struct {
	w       io.Writer
	origins map[string]string
	tables  int
	err     error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table writes the values of a struct; origins have keys that begin with prefix.
func (p *printer) table(head, prefix string, s reflect.Value) {
	if p.tables++; p.tables > 1 {
		p.printf("\n")
	}
	p.printf("%s\n", head)
	for f, v := range s.Fields() {
		name := f.Tag.Get("toml")
		if f.Type.Kind() == reflect.Struct || f.Type == reflect.TypeFor[Table]() && v.Len() == 0 {
			continue
		}
		if f.Type == reflect.TypeFor[[]string]() && v.IsNil() {
			p.printf("# %s: all\n", name)
			continue
		}
		origin, ok := p.origins[prefix+name]
		if !ok {
			origin = "default"
		}
		p.printf("%-44s # %s\n", name+" = "+literal(name, v), origin)
	}
}

// below writes the tables inside a table, or inside one of a list of tables.
func (p *printer) below(outer, prefix string, s reflect.Value) {
	for f, v := range s.Fields() {
		if f.Type.Kind() == reflect.Struct {
			name := f.Tag.Get("toml")
			p.table("["+outer+"."+name+"]", prefix+name+".", v)
		}
	}
}

// literal returns v as TOML has it.
func literal(name string, v reflect.Value) string {
	if slices.Contains([]string{"api_keys", "admin_keys"}, name) {
		hidden := make([]string, v.Len())
		for i := range hidden {
			hidden[i] = masked
		}
		v = reflect.ValueOf(hidden)
	}
	switch value := v.Interface().(type) {
	case Table:
		return inline(value)
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			panic("BUG: a setting without a text: " + err.Error())
		}
		return quote(string(text))
	case fmt.Stringer:
		return quote(value.String())
	case string:
		if name == "key" || (name == "redis_url" || name == "hub_token") && value != "" {
			value = masked
		}
		if name == "source" {
			value = shown(value)
		}
		return quote(value)
	case []string:
		quoted := make([]string, len(value))
		for i, s := range value {
			quoted[i] = quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case float64:
		text := fmt.Sprint(value)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	default:
		return fmt.Sprint(value)
	}
}

// inline returns t as a table on one line.
func inline(t Table) string {
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.SetTablesInline(true)
	if err := e.Encode(map[string]any{"t": map[string]any(t)}); err != nil {
		panic("BUG: a table that was read cannot be written: " + err.Error())
	}
	return strings.TrimPrefix(strings.TrimSpace(b.String()), "t = ")
}

// quote returns s as a string of TOML: JSON's strings are, but for DEL.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("BUG: a string that JSON cannot hold: " + err.Error())
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
