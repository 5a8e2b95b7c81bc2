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

// Effective is one setting as it is in effect.
type Effective struct {
	// Key is its name, such as server.port or plugin[0].limits.memory.
	Key string `json:"key"`
	// Value is a bool, a number, a text, a list of texts or a table; secrets are masked. It is nil where a list
	// that is not given means all.
	Value any `json:"value"`
	// Origin is a line of the file, a variable of the environment, a flag, or the default.
	Origin string `json:"origin"`
}

// Effective lists the settings.
func (l *Loaded) Effective() (all []Effective) {
	l.visit(func(string) {}, func(e Effective) { all = append(all, e) })
	return all
}

// WriteEffective writes the settings as TOML, each with a comment that says
// where its value comes from. Secrets are masked.
func (l *Loaded) WriteEffective(w io.Writer) error {
	var b bytes.Buffer
	l.visit(func(head string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, head)
	}, func(e Effective) {
		name := lastPart(e.Key)
		if e.Value == nil {
			fmt.Fprintf(&b, "# %s: all\n", name)
			return
		}
		fmt.Fprintf(&b, "%-44s # %s\n", name+" = "+literal(e.Value), e.Origin)
	})
	_, err := w.Write(b.Bytes())
	return err
}

// visit calls table with the head of each table, and value with each setting in it.
func (l *Loaded) visit(table func(head string), value func(Effective)) {
	for f, v := range reflect.ValueOf(&l.Config).Elem().Fields() {
		name := f.Tag.Get("toml")
		if name == "model" && len(l.Config.ModelList) > 0 {
			v = reflect.ValueOf(l.Config.ModelList)
		}
		switch {
		case name == "-":
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				table("[[" + name + "]]")
				one := v.Index(i)
				if m, ok := one.Interface().(MCP); ok { // a zero of it is no value, but its default
					one = reflect.ValueOf(m.Complete())
				}
				l.visitTable(name, fmt.Sprintf("%s[%d].", name, i), one, table, value)
			}
		default:
			table("[" + name + "]")
			l.visitTable(name, name+".", v, table, value)
		}
	}
}

// visitTable visits the values of a struct, and then the tables inside it; keys begin with prefix.
func (l *Loaded) visitTable(outer, prefix string, s reflect.Value, table func(head string), value func(Effective)) {
	for f, v := range s.Fields() {
		name := f.Tag.Get("toml")
		if f.Type.Kind() == reflect.Struct || isTables(f.Type) || f.Type.Kind() == reflect.Map && v.Len() == 0 {
			continue
		}
		origin, ok := l.origins[prefix+name]
		if !ok {
			origin = "default"
		}
		value(Effective{Key: prefix + name, Value: plain(name, v), Origin: origin})
	}
	for f, v := range s.Fields() {
		name := f.Tag.Get("toml")
		switch {
		case f.Type.Kind() == reflect.Struct:
			table("[" + outer + "." + name + "]")
			l.visitTable(outer, prefix+name+".", v, table, value)
		case isTables(f.Type):
			for i := range v.Len() {
				table("[[" + outer + "." + name + "]]")
				l.visitTable(outer+"."+name, fmt.Sprintf("%s%s[%d].", prefix, name, i), v.Index(i), table, value)
			}
		}
	}
}

// isTables reports whether a type is a list of tables.
func isTables(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// Settings that hold addresses; those of bare have no "@" of their own.
var (
	addresses = []string{"source", "reference"}
	bare      = []string{"otlp_endpoint", "endpoint", "replay_endpoint", "hub", "hosts", "allow_hosts",
		"hostname", "admin_hostname"}
)

// shownAs returns a text of a setting without secrets.
func shownAs(name, text string) string {
	switch {
	case slices.Contains(bare, name):
		return ShownHost(text)
	case slices.Contains(addresses, name), strings.Contains(text, "://"):
		return Shown(text)
	case name == "public_key" && !(PluginSigner{PublicKey: text}).IsFile() && text != "":
		return masked // it may be a private one that was put here
	}
	return text
}

// isSecret reports whether the value of a setting must not be shown.
func isSecret(name string) bool {
	return slices.Contains([]string{"api_keys", "admin_keys", "receipt_key", "key", "redis_url", "hub_token"}, name)
}

// plain returns the value of a setting in types that files know, without secrets.
func plain(name string, v reflect.Value) any {
	if isSecret(name) && v.Kind() == reflect.Slice {
		hidden := make([]string, v.Len())
		for i := range hidden {
			hidden[i] = masked
		}
		return hidden
	}
	switch value := v.Interface().(type) {
	case map[string]string: // variables and headers, which hold keys
		hidden := Table{}
		for name := range value {
			hidden[name] = masked
		}
		return hidden
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			panic("BUG: a setting without a text: " + err.Error())
		}
		return string(text)
	case fmt.Stringer:
		return value.String()
	case string:
		if isSecret(name) && (value != "" || name == "key") {
			return masked
		}
		return shownAs(name, value)
	case []string:
		if value == nil {
			return nil
		}
		list := make([]string, len(value))
		for i, text := range value {
			if list[i] = shownAs(name, text); name == "command" && i > 0 { // arguments, which may be keys
				list[i] = masked
			}
		}
		return list
	default:
		return value
	}
}

// literal returns a value of plain as TOML has it.
func literal(v any) string {
	switch value := v.(type) {
	case Table:
		return inline(value)
	case string:
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

// quote returns s as a string of TOML: JSON's strings are, except DEL.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("BUG: a string that JSON cannot hold: " + err.Error())
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
