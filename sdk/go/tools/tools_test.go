package tools

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
)

// upper tells special tokens as calls.
type upper struct{}

func (upper) Begin(r Request) (Parser, error) {
	m, err := r.Read()
	if err == nil && m.Choice.Mode == None {
		return nil, nil
	}
	return upper{}, err
}

func (upper) Feed(piece string, special bool, out *Events) {
	if special {
		out.Begin(piece, "id")
		return
	}
	out.Content(piece)
}

func (upper) Finish(cut bool, out *Events) {
	if cut {
		out.Failed(Incomplete, "")
	}
}

func TestRegister(t *testing.T) {
	Register(func(config []byte) (Plugin, error) {
		if string(config) != "{}" {
			return nil, errors.New("want no configuration")
		}
		return upper{}, nil
	})
	if d := string(registry.Description()); !strings.Contains(d, `"kinds":["tools"]`) {
		t.Errorf("description %s", d)
	}
	if registry.Init([]byte(`{"a":1}`)) == nil || registry.Init([]byte(`{}`)) != nil {
		t.Error("the configuration is not handed over")
	}
	if registry.Begin([]byte(`{}`), nil) != nil || registry.Begin([]byte(`{"a":1}`), nil) == nil {
		t.Error("a plugin without Validate takes no parameters")
	}
	if begin([]byte(`[]`)) == nil || begin([]byte(`{"tool_choice":"none"}`)) == nil || begin([]byte(`{}`)) != nil {
		t.Error("begin: a bad request, no parser, a parser")
	}
	parser.Feed("<f>", true, &events)
	parser.Finish(true, &events)
	want := []Event{{Kind: abi.EventBegin, Name: "<f>", ID: "id"}, {Kind: abi.EventFailed}}
	if got := events.Take(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEvents(t *testing.T) {
	var e Events
	e.Content("a")
	e.Content("")
	e.Failed(Unknown, "x")
	e.Begin("f", "1")
	e.Arguments("{}")
	e.End()
	first := append([]Event(nil), e.Take()...)
	e.Reasoning("r")
	e.Begin("g", "2")
	e.Failed(Malformed, "y")
	got := append(first, e.Take()...)
	want := []Event{
		{Kind: abi.EventContent, Text: "a"},
		{Kind: abi.EventFailed, Index: -1, Reason: Unknown, Text: "x"},
		{Kind: abi.EventBegin, Name: "f", ID: "1"}, {Kind: abi.EventArguments, Text: "{}"}, {Kind: abi.EventEnd},
		{Kind: abi.EventReasoning, Text: "r"},
		{Kind: abi.EventBegin, Index: 1, Name: "g", ID: "2"}, {Kind: abi.EventFailed, Index: 1, Reason: Malformed,
			Text: "y"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, f := range map[string]func(*Events){
		"Arguments": func(e *Events) { e.Arguments("x") },
		"End":       (*Events).End,
		"Begin":     func(e *Events) { e.Begin("a", "b"); e.Begin("c", "d") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s out of order is accepted", name)
				}
			}()
			f(&Events{})
		}()
	}
}

func TestRead(t *testing.T) {
	m, err := Request(`{"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"name": "f"}, "parallel_tool_calls": false, "prompt_end": "<think>\n", "params": {}, "new": 1}`).Read()
	if err != nil || len(m.Tools) != 1 || m.Choice != (Choice{Named, "f"}) || m.Parallel ||
		m.PromptEnd != "<think>\n" || string(m.Params) != "{}" {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = Request(`{"answer": {"language": "regex", "source": "a", "params": {"x": 1}, "new": []}}`).Read()
	if err != nil || m.Answer == nil || m.Answer.Language != "regex" || m.Answer.Source != "a" ||
		string(m.Answer.Params) != `{"x": 1}` {
		t.Errorf("answer: %+v, %v", m.Answer, err)
	}
	if m, err := Request(`{"tools": null}`).Read(); err != nil || m.Choice.Mode != Auto || !m.Parallel {
		t.Errorf("defaults: %+v, %v", m, err)
	}
	for _, bad := range []string{`[]`, `{"tool_choice": "some"}`, `{"tool_choice": 1}`, `{"tools": 1}`, `{`} {
		if _, err := Request(bad).Read(); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// holds is an upper that wants right calls.
type holds struct{ upper }

func (holds) Constraint(r Request) (Constraint, error) {
	m, err := r.Read()
	if err != nil || len(m.Tools) == 0 {
		return Constraint{}, err
	}
	return Constraint{Language: "regex", Source: "a\"", Params: []byte(`{"x":1}`), Optional: !m.Tools[0].Strict,
		Places:  []Place{{At: "#/a", Pointer: "#/tools/0", Tool: "f"}, {At: "#/b", Pointer: "#/tools/1", Tool: "g"}},
		Dropped: []Dropped{{"#/tools/0/x", "x", "why"}, {"#/tools", "", ""}}}, nil
}

func TestConstraint(t *testing.T) {
	defer func(p Plugin) { current = p }(current)
	current = upper{}
	if c, err := constrain([]byte(`{}`)); err != nil || c.text() != nil || c.notes() != nil {
		t.Errorf("a plugin that says nothing: %+v, %v", c, err)
	}
	current = holds{}
	if _, err := constrain([]byte(`[]`)); err == nil {
		t.Error("a refusal is lost")
	}
	c, err := constrain([]byte(`{"tools": [{"function": {"name": "f", "strict": true}}]}`))
	want := `{"language":"regex","source":"a\"","params":{"x":1},"optional":false,"places":[{"at":"#/a","pointer":"#/tools/0","tool":"f"},{"at":"#/b","pointer":"#/tools/1","tool":"g"}]}`
	if got := string(c.text()); err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
	want = `[{"pointer":"#/tools/0/x","keyword":"x","reason":"why"},{"pointer":"#/tools","keyword":"","reason":""}]`
	if got := string(c.notes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range []string{"", "a\"\\b\n\x01é", "\xff\""} {
		if got, want := string(appendSource(nil, s)), string(registry.AppendString(nil, s)); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
	c = Constraint{Source: "s", Answer: true}
	if got := string(c.text()); got != `{"language":"","source":"s","optional":false,"answer":true}` {
		t.Error(got)
	}
}
