package plugintest

import (
	"reflect"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/template"
	"tgi/sdk/go/tools"
)

type turns struct{}

func (turns) Render(r template.Request, out *template.Output) error {
	c, err := r.Read()
	for _, m := range c.Messages {
		out.Template("<" + m.Role + ">")
		out.Data(m.Content)
	}
	return err
}

func TestRender(t *testing.T) {
	got, err := Render(turns{}, `{"messages": [{"role": "user", "content": "Hi"}, {"role": "end"}]}`)
	if want := "<user>«Hi»<end>"; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := Render(turns{}, `[]`); err == nil {
		t.Error("a refusal is lost")
	}
}

// words is a parser whose calls are special tokens. It is wrong in one way when sloppy: it tells each piece's length.
type words struct{ sloppy bool }

func (w words) Begin(r tools.Request) (tools.Parser, error) {
	_, err := r.Read()
	return w, err
}

func (w words) Feed(piece string, special bool, out *tools.Events) {
	switch {
	case special:
		out.Begin(piece, "id")
		out.End()
	case w.sloppy && len(piece) > 3:
		out.Reasoning(piece)
	default:
		out.Content(piece)
	}
}

func (words) Finish(bool, *tools.Events) {}

func TestParse(t *testing.T) {
	got, err := Parse(words{}, `{}`, "a", "b", "<now>", "c")
	want := []tools.Event{{Kind: abi.EventContent, Text: "ab"}, {Kind: abi.EventBegin, Name: "<now>", ID: "id"},
		{Kind: abi.EventEnd}, {Kind: abi.EventContent, Text: "c"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Parse(words{}, `[]`); err == nil {
		t.Error("a refusal is lost")
	}
}

// held is a parser that wants text that is x.
type held struct{ words }

func (held) Constraint(r tools.Request) (tools.Constraint, error) {
	_, err := r.Read()
	return tools.Constraint{Source: "x"}, err
}

func TestConstraint(t *testing.T) {
	if c, err := Constraint(words{}, `{}`); err != nil || c.Source != "" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := Constraint(held{}, `{}`); err != nil || c.Source != "x" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Constraint(held{}, `[]`); err == nil {
		t.Error("a refusal is lost")
	}
}

// failures counts what a test reports, instead of failing.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n++ }

func TestSplits(t *testing.T) {
	text := strings.Repeat("ab<", 4)
	Splits(t, words{}, `{}`, text)
	f := &failures{TB: t}
	if Splits(f, words{sloppy: true}, `{}`, text); f.n == 0 {
		t.Error("a parser that goes by its pieces passes")
	}
}
