package plugintest

import (
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/template"
	"tgi/sdk/go/tools"
)

// Render renders a request, the JSON object of abi.Template. The text that it
// returns has data between « and », so that one comparison checks both:
//
//	got, err := plugintest.Render(p, `{"messages": [{"role": "user", "content": "Hi"}]}`)
//	want := "<|user|>«Hi»<|end|>"
func Render(p template.Plugin, request string) (string, error) {
	var out template.Output
	if err := p.Render(template.Request(request), &out); err != nil {
		return "", err
	}
	text, b, at := out.Text(), strings.Builder{}, uint32(0)
	for _, s := range out.Spans() {
		b.WriteString(text[at:s.From] + "«" + text[s.From:s.To] + "»")
		at = s.To
	}
	b.WriteString(text[at:])
	return b.String(), out.Err()
}

// Parse begins a message with the request, the JSON object of abi.Tools, feeds
// the pieces and finishes it. A piece like <this> is fed as a special token.
// Adjacent texts of the same kind and call are joined.
func Parse(p tools.Plugin, request string, pieces ...string) ([]tools.Event, error) {
	return parse(p, request, func(s string) bool { return len(s) > 2 && s[0] == '<' && s[len(s)-1] == '>' }, pieces)
}

// Constraint returns a plugin's constraint for a request, the JSON object of
// abi.Tools. It is the zero value if the plugin is not a tools.Constrainer.
func Constraint(p tools.Plugin, request string) (tools.Constraint, error) {
	if c, ok := p.(tools.Constrainer); ok {
		return c.Constraint(tools.Request(request))
	}
	return tools.Constraint{}, nil
}

func parse(p tools.Plugin, request string, special func(string) bool, pieces []string) ([]tools.Event, error) {
	parser, err := p.Begin(tools.Request(request))
	if err != nil {
		return nil, err
	}
	var all []tools.Event
	var out tools.Events
	for _, s := range pieces {
		parser.Feed(s, special(s), &out)
		all = join(all, out.Take())
	}
	parser.Finish(false, &out)
	return join(all, out.Take()), nil
}

// join appends events and joins a text to the previous event if it continues that.
func join(all, more []tools.Event) []tools.Event {
	for _, e := range more {
		n := len(all) - 1
		goesOn := e.Kind == abi.EventContent || e.Kind == abi.EventReasoning || e.Kind == abi.EventArguments
		if goesOn && n >= 0 && all[n].Kind == e.Kind && all[n].Index == e.Index {
			all[n].Text += e.Text
			continue
		}
		all = append(all, e)
	}
	return all
}

// Splits fails the test unless the text gives the same events however it is
// split: into two pieces at every position, and into bytes. It is fed as text,
// without special tokens. The plugin must give the same ids each time.
func Splits(t testing.TB, p tools.Plugin, request, text string) {
	t.Helper()
	never := func(string) bool { return false }
	want, err := parse(p, request, never, []string{text})
	if err != nil {
		t.Fatal(err)
	}
	check := func(pieces []string) {
		got, err := parse(p, request, never, pieces)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("pieces %q give %+v\nwhole %+v", pieces, got, want)
			return
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("pieces %q give %+v\nwhole %+v", pieces, got[i], want[i])
			}
		}
	}
	var single []string
	for i := range len(text) {
		check([]string{text[:i], text[i:]})
		single = append(single, text[i:i+1])
	}
	check(single)
}
