package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Lock is what pins a plugin in the text of the settings' file: the three keys of a [[plugin]] that an installation
// sets.
type Lock struct{ Name, Source, SHA256, Reference string }

// keys are the keys and values that a lock sets, in their order in a new block.
func (l Lock) keys() [][2]string {
	return [][2]string{{"source", l.Source}, {"sha256", l.SHA256}, {"reference", l.Reference}}
}

// SetLock returns the text of a settings' file with the lock in the block [[plugin]] of its name: in the block that is
// there, or else in a new one at the end. All else stays as it is, comments and order included.
func SetLock(text []byte, l Lock) ([]byte, error) {
	if err := CheckName(l.Name); err != nil {
		return nil, fmt.Errorf("name %w", err)
	}
	blocks, err := pluginBlocks(text)
	if err != nil {
		return nil, err
	}
	want, err := tree(text)
	if err != nil {
		return nil, err
	}
	end := lineEnd(text)
	var out []byte
	if i := slices.IndexFunc(blocks, func(b block) bool { return b.name == l.Name }); i >= 0 {
		out = blocks[i].set(text, l, end)
		table := want.plugins()[i]
		for _, kv := range l.keys() {
			setFold(table, kv[0], kv[1])
		}
	} else {
		out = appendBlock(text, l, end)
		table := map[string]any{"name": l.Name}
		for _, kv := range l.keys() {
			table[kv[0]] = kv[1]
		}
		want.addPlugin(table)
	}
	return out, same(out, want)
}

// Unlock returns the text of a settings' file without the block [[plugin]] of a name. Comments above the block stay.
func Unlock(text []byte, name string) ([]byte, error) {
	blocks, err := pluginBlocks(text)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(blocks, func(b block) bool { return b.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no [[plugin]] with name = %q", trim(name))
	}
	want, err := tree(text)
	if err != nil {
		return nil, err
	}
	want.removePlugin(i)
	b := blocks[i]
	out := slices.Concat(text[:b.start], text[b.end:])
	return out, same(out, want)
}

// block is a [[plugin]] in a text, from the line of its head to that of the next table, without comments that belong to
// that one.
type block struct {
	name       string
	start, end int
	after      int // the end of the line of the key name, where keys are inserted
	indent     string
	values     map[string]span // of the keys of a lock
}

// span is a part of a text.
type span struct{ from, to int }

// pluginBlocks finds the blocks [[plugin]].
func pluginBlocks(text []byte) (list []block, err error) {
	if _, err := tree(text); err != nil { // the parser below takes for granted that the text is valid
		return nil, err
	}
	var current *block
	last := 0 // where the last expression ends, or its last part that has a place
	close := func(next int) {
		if current != nil {
			current.end = max(lineAfter(text, last), contentEnd(text, next))
			list = append(list, *current)
			current = nil
		}
	}
	inBlock := false // within the head table of a block, not below it
	p := &unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		start, end := extent(p, e)
		name := strings.ToLower(keyOf(e.Key()))
		switch e.Kind {
		case unstable.ArrayTable, unstable.Table:
			inBlock = false
			if e.Kind == unstable.ArrayTable && name == "plugin" {
				close(lineBefore(text, start))
				current = &block{start: lineBefore(text, start), values: map[string]span{}}
				inBlock = true
			} else if !strings.HasPrefix(name, "plugin.") {
				close(lineBefore(text, start))
			}
		case unstable.KeyValue:
			if current == nil && name == "plugin" {
				return nil, errUneditable
			}
			if !inBlock || current == nil {
				break
			}
			v := e.Value()
			if v.Kind != unstable.String {
				break
			}
			switch name {
			case "name":
				current.name = string(v.Data)
				current.after = lineAfter(text, end)
				row := text[lineBefore(text, start):start]
				current.indent = string(row[:len(row)-len(bytes.TrimLeft(row, " \t"))])
			case "source", "sha256", "reference":
				current.values[name] = span{int(v.Raw.Offset), int(v.Raw.Offset + v.Raw.Length)}
			}
		}
		last = end
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	close(len(text))
	return list, nil
}

// extent is where an expression begins and ends: from its first key to the end of its value. A bracket that closes a
// list has no place of its own.
func extent(p *unstable.Parser, e *unstable.Node) (start, end int) {
	start = -1
	for key := e.Key(); key.Next(); {
		r := key.Node().Raw
		if start < 0 {
			start = int(r.Offset)
		}
		end = int(r.Offset + r.Length)
	}
	if e.Kind == unstable.KeyValue {
		end = max(end, endOf(e.Value()))
	}
	return start, end
}

// endOf is where a value ends, or its last part that has a place.
func endOf(v *unstable.Node) int {
	end := int(v.Raw.Offset + v.Raw.Length)
	for inner := v.Children(); inner.Next(); {
		end = max(end, endOf(inner.Node()))
	}
	return end
}

// set writes the lock into the block.
func (b block) set(text []byte, l Lock, end string) []byte {
	type edit struct {
		span
		text string
	}
	var edits []edit
	var added strings.Builder
	for _, kv := range l.keys() {
		if at, ok := b.values[kv[0]]; ok {
			edits = append(edits, edit{at, quoted(kv[1])})
		} else {
			added.WriteString(b.indent + kv[0] + " = " + quoted(kv[1]) + end)
		}
	}
	if added.Len() > 0 {
		insert := added.String()
		if b.after > 0 && text[b.after-1] != '\n' { // the last line of the file has no end
			insert = end + strings.TrimSuffix(insert, end)
		}
		edits = append(edits, edit{span{b.after, b.after}, insert})
	}
	slices.SortFunc(edits, func(x, y edit) int { return y.from - x.from })
	out := slices.Clone(text)
	for _, e := range edits {
		out = slices.Concat(out[:e.from], []byte(e.text), out[e.to:])
	}
	return out
}

// appendBlock adds a block to the end of a text.
func appendBlock(text []byte, l Lock, end string) []byte {
	var b bytes.Buffer
	b.Write(text)
	if len(text) > 0 {
		if !bytes.HasSuffix(text, []byte("\n")) {
			b.WriteString(end)
		}
		b.WriteString(end)
	}
	fmt.Fprintf(&b, "[[plugin]]%sname = %s%s", end, quoted(l.Name), end)
	for _, kv := range l.keys() {
		fmt.Fprintf(&b, "%s = %s%s", kv[0], quoted(kv[1]), end)
	}
	return b.Bytes()
}

// quoted is a basic string of TOML.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// lineEnd is how the lines of a text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// contentEnd is where the last line before at ends that is neither empty nor a comment.
func contentEnd(text []byte, at int) int {
	for at > 0 {
		start := lineBefore(text, at-1)
		if line := bytes.TrimSpace(text[start:at]); len(line) > 0 && line[0] != '#' {
			break
		}
		at = start
	}
	return at
}

// lineBefore is where the line begins that at is in, lineAfter where the next one does.
func lineBefore(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineAfter(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// values is a text of TOML, decoded.
type values map[string]any

func tree(text []byte) (values, error) {
	var v values
	if err := toml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v == nil {
		v = values{}
	}
	return v, nil
}

// key is how the text writes plugin.
func (v values) key() string {
	for k := range v {
		if strings.EqualFold(k, "plugin") {
			return k
		}
	}
	return "plugin"
}

// plugins returns the blocks.
func (v values) plugins() (list []map[string]any) {
	all, _ := v[v.key()].([]any)
	for _, one := range all {
		table, _ := one.(map[string]any)
		list = append(list, table)
	}
	return list
}

func (v values) addPlugin(table map[string]any) {
	all, _ := v[v.key()].([]any)
	v[v.key()] = append(all, table)
}

func (v values) removePlugin(i int) {
	all, _ := v[v.key()].([]any)
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(v, v.key())
		return
	}
	v[v.key()] = all
}

// setFold sets a key, in the case that the table has it in.
func setFold(table map[string]any, key, value string) {
	for k := range table {
		if strings.EqualFold(k, key) {
			key = k
		}
	}
	table[key] = value
}

// errUneditable means that an edit would change more than the plugin.
var errUneditable = errors.New("its plugins are written in a form that a program can't edit: write each as a block " +
	"[[plugin]]")

// same returns an error if the text does not say what was wanted: then nothing is written, and the text is one for
// people to edit.
func same(text []byte, want values) error {
	got, err := tree(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		return errUneditable
	}
	return nil
}
