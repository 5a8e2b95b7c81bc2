package toolcalls

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the events in testdata")

// sample is one text of testdata with the events it must give.
type sample struct {
	file, name string
	options    []string // the words after the name
	text       string
	events     string
}

// readSamples reads testdata/PRESET.txt. A sample is a line "== NAME [| option]...", the model's text, a line "--", and
// the events. Lines that begin with # before the first sample say where the facts come from.
func readSamples(t testing.TB, file string) (head string, all []sample) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split("\n"+string(data), "\n== ")
	for _, part := range parts[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		text, events, ok := strings.Cut(rest, "\n--\n")
		if !ok {
			t.Fatalf("%s: sample %q has no line --", file, title)
		}
		words := strings.Split(title, " | ")
		all = append(all, sample{file: file, name: words[0], options: words[1:], text: text,
			events: strings.Trim(events, "\n")})
	}
	return strings.TrimPrefix(parts[0], "\n"), all
}

// allSamples are those of every file.
func allSamples(t testing.TB) []sample {
	t.Helper()
	files, err := filepath.Glob("testdata/presets/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	var all []sample
	for _, f := range files {
		_, s := readSamples(t, f)
		all = append(all, s...)
	}
	return all
}

// parser is a new one for the sample.
func (s sample) parser(t testing.TB) *Parser {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(s.file), ".txt")
	f, ok := Preset(name)
	if !ok {
		t.Fatalf("%s: no preset %q", s.file, name)
	}
	o := Options{Tools: testTools(t), Seed: 1}
	for _, word := range s.options {
		key, value, _ := strings.Cut(word, " ")
		switch key {
		case "thinking":
			o.Thinking = true
		case "none", "required":
			o.Choice.Mode = Mode(key)
		case "named":
			o.Choice.Mode, o.Choice.Name = Exact, value
		case "single":
			o.Choice.Single = true
		case "no-tools":
			o.Tools = nil
		default:
			t.Fatalf("%s: %s: unknown option %q", s.file, s.name, word)
		}
	}
	return New(f, o)
}

func testTools(t testing.TB) []Tool {
	t.Helper()
	data, err := os.ReadFile("testdata/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	tools := make([]Tool, len(list))
	for i, x := range list {
		tools[i] = Tool{Name: x.Function.Name, Parameters: x.Function.Parameters}
	}
	return tools
}

// feed gives the pieces to a parser and returns all events.
func feed(p *Parser, pieces ...string) []Event {
	var all []Event
	for _, s := range pieces {
		all = append(all, p.Feed(s)...)
	}
	return append(all, p.Finish()...)
}

// joined is the normal form: neighbouring events of one text are one.
func joined(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if n := len(out) - 1; n >= 0 && out[n].Kind == e.Kind && out[n].Index == e.Index &&
			(e.Kind == Content || e.Kind == Reasoning || e.Kind == Arguments) {
			out[n].Text += e.Text
			continue
		}
		out = append(out, e)
	}
	return out
}

// written is the events as in testdata.
func written(events []Event) string {
	var b strings.Builder
	for _, e := range joined(events) {
		switch e.Kind {
		case Content, Reasoning:
			fmt.Fprintf(&b, "%s %q\n", e.Kind, e.Text)
		case CallBegin:
			fmt.Fprintf(&b, "call %d %s %s\n", e.Index, e.Name, e.ID)
		case Arguments:
			fmt.Fprintf(&b, "arguments %d %s\n", e.Index, strings.ReplaceAll(e.Text, "\n", "⏎"))
		case CallEnd:
			fmt.Fprintf(&b, "end %d\n", e.Index)
		case CallFailed:
			fmt.Fprintf(&b, "failed %d %s: %s %q\n", e.Index, e.Name, e.Reason, e.Text)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// rewrite stores the samples of a file again.
func rewrite(t *testing.T, file, head string, all []sample) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(head)
	for _, s := range all {
		title := strings.Join(append([]string{s.name}, s.options...), " | ")
		fmt.Fprintf(&b, "\n== %s\n%s\n--\n%s\n", title, s.text, s.events)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}
