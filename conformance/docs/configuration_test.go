package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tgi/server/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew from tgi.toml")

// begin opens what is made from tgi.toml in the page; what stands before it is written by hand.
const begin = "<!-- Made from tgi.toml by go test ./conformance/docs -run TestConfiguration -update -->\n"

// TestConfiguration: the reference has every key of tgi.toml with its type, default and meaning.
func TestConfiguration(t *testing.T) {
	page := filepath.Join(root, "docs/configuration.md")
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(b), begin)
	if !found {
		t.Fatalf("%s has no %q", page, begin)
	}
	text, err := os.ReadFile(filepath.Join(root, "tgi.toml"))
	if err != nil {
		t.Fatal(err)
	}
	want := head + begin + reference(t, string(text))
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Error("docs/configuration.md is not what tgi.toml says: go test ./conformance/docs -run TestConfiguration -update")
	}
	for _, key := range config.Keys() {
		if strings.Contains(want, "\n## "+key+"\n") {
			continue // a table of its own
		}
		section, name := key[:strings.LastIndexByte(key, '.')], key[strings.LastIndexByte(key, '.')+1:]
		if _, rest, ok := strings.Cut(want, "\n## "+section+"\n"); !ok ||
			!strings.Contains(strings.Split(rest, "\n## ")[0], "\n| `"+name+"` | ") {
			t.Errorf("docs/configuration.md lacks %s", key)
		}
	}
}

// row is a key of tgi.toml.
type row struct {
	key, value, meaning string
	commented           bool
	example             bool // it is commented out in a section that has defaults: not set without it
}

// part is a section of tgi.toml.
type part struct {
	name, about string
	rows        []row
}

var (
	sectionLine = regexp.MustCompile(`^\[+([a-z_.]+)\]+(?:\s+# (.*))?$`)
	keyLine     = regexp.MustCompile(`^([a-z_0-9]+) = (.*?)(?:\s+# ?(.*))?$`)
	moreLine    = regexp.MustCompile(`^\s+# (.*)$`)
)

// parts reads tgi.toml: what stands in comments above a section is about it, and examples that are commented out
// are sections too.
func parts(text string) (all []*part) {
	var about []string
	var current *part
	known := false // the last key is described already
	for line := range strings.SplitSeq(text, "\n") {
		comment, isComment := strings.CutPrefix(line, "# ")
		if isComment && (sectionLine.MatchString(comment) || keyLine.MatchString(comment) ||
			moreLine.MatchString(comment)) {
			line = comment
		} else if isComment {
			about = append(about, comment)
			continue
		}
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			if i := slices.IndexFunc(all, func(p *part) bool { return p.name == m[1] }); i >= 0 {
				current = all[i] // a further block of the same name
			} else {
				current = &part{name: m[1]}
				all = append(all, current)
			}
			current.about = strings.TrimSpace(current.about + " " + strings.Join(append(about, m[2]), " "))
			about = nil
		} else if m := keyLine.FindStringSubmatch(line); m != nil && current != nil {
			known = slices.ContainsFunc(current.rows, func(r row) bool { return r.key == m[1] })
			if !known {
				example := isComment && slices.ContainsFunc(current.rows, func(r row) bool { return !r.commented })
				current.rows = append(current.rows, row{m[1], m[2], m[3], isComment, example})
			}
		} else if m := moreLine.FindStringSubmatch(line); m != nil && current != nil && !known &&
			len(current.rows) > 0 {
			last := &current.rows[len(current.rows)-1]
			last.meaning += " " + strings.TrimSpace(m[1])
		} else if line == "" {
			about = nil
		}
	}
	return all
}

// reference is the page's tables.
func reference(t *testing.T, text string) string {
	t.Helper()
	types := typesOf(nil, "", reflect.TypeFor[config.Config]())
	types = append(types, typesOf(nil, "model.", reflect.TypeFor[config.Model]())...)
	flags := flagsByKey()
	var out strings.Builder
	for _, p := range parts(text) {
		fmt.Fprintf(&out, "\n## %s\n\n", p.name)
		if p.about != "" {
			out.WriteString(wrapped(p.about) + "\n\n")
		}
		value := "default"
		if p.name == "key" || p.name == "plugin" || p.name == "plugin.config" {
			value = "example"
		}
		out.WriteString("| key | type | " + value + " | meaning | flag |\n|---|---|---|---|---|\n")
		for _, r := range p.rows {
			kind := "any"
			if i := slices.IndexFunc(types, func(k keyType) bool { return k.key == p.name+"."+r.key }); i >= 0 {
				kind = types[i].kind
			} else if p.name != "plugin.config" && r.key != "quantization" {
				t.Errorf("tgi.toml has %s.%s, which is no setting", p.name, r.key)
			}
			shown := "`" + r.value + "`"
			if r.example {
				shown = "not set; for example " + shown
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", r.key, kind, shown,
				strings.ReplaceAll(r.meaning, "|", `\|`), flags[p.name+"."+r.key])
		}
	}
	return out.String()
}

// wrapped breaks a paragraph into lines of 120 characters.
func wrapped(text string) string {
	var out strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		if length > 0 && length+1+len(word) > 120 {
			out.WriteByte('\n')
			length = 0
		} else if length > 0 {
			out.WriteByte(' ')
			length++
		}
		out.WriteString(word)
		length += len(word)
	}
	return out.String()
}

// flagsByKey returns the flags that set a key.
func flagsByKey() map[string]string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(config.Flags).AddTo(set)
	flags := map[string]string{}
	set.VisitAll(func(f *pflag.Flag) {
		if key := f.Annotations[config.FlagKey]; !f.Hidden && len(key) == 1 {
			flags[key[0]] = strings.TrimSpace(flags[key[0]] + " `--" + f.Name + "`")
		}
	})
	return flags
}

type keyType struct{ key, kind string }

// typesOf says what each key of a section takes, in words.
func typesOf(all []keyType, prefix string, section reflect.Type) []keyType {
	for i := range section.NumField() {
		f := section.Field(i)
		name, ok := f.Tag.Lookup("toml")
		if !ok || name == "-" {
			continue
		}
		if words := map[reflect.Type]string{
			reflect.TypeFor[config.Size]():     "size",
			reflect.TypeFor[config.Duration](): "duration",
			reflect.TypeFor[config.Wait]():     "duration or auto",
			reflect.TypeFor[config.Table]():    "table",
			reflect.TypeFor[[]string]():        "list of strings",
		}[f.Type]; words != "" {
			all = append(all, keyType{prefix + name, words})
			continue
		}
		switch f.Type.Kind() {
		case reflect.Struct:
			all = typesOf(all, prefix+name+".", f.Type)
		case reflect.Slice:
			all = typesOf(all, prefix+name+".", f.Type.Elem())
		case reflect.String:
			all = append(all, keyType{prefix + name, "string"})
		case reflect.Bool:
			all = append(all, keyType{prefix + name, "boolean"})
		case reflect.Float64:
			all = append(all, keyType{prefix + name, "number"})
		default:
			kind := "integer"
			if strings.HasSuffix(f.Type.String(), "Level") {
				kind = "string"
			}
			all = append(all, keyType{prefix + name, kind})
		}
	}
	return all
}
