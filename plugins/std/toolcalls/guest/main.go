// Command guest is the built-in parser of tool calls: package toolcalls behind
// the contract of sdk/abi.
package main

import (
	"errors"
	"strconv"
	"strings"

	"tgi/plugins/std/toolcalls"
	"tgi/sdk/abi"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/tools"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "toolcalls", Version: "1.0.0", Doc: "Reads reasoning and tool calls in the formats that models write.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"format":{"type":["string","object"],"description":"auto, the name of a built-in format, or a format; default: that of the configuration"}}}`,
	})
	tools.Register(open)
}

func main() {}

// reader is the model's format.
type reader struct {
	format *toolcalls.Format
	auto   *toolcalls.Format
}

func open(config []byte) (tools.Plugin, error) {
	var model chat.Model
	var source string
	chosen := []byte(`"auto"`)
	r := params.Read(config)
	for key := range r.Object() {
		switch key {
		case "format":
			chosen = append([]byte(nil), r.Raw()...)
		case "template":
			source = r.String()
		case "model":
			model = chat.ReadModel(r)
		default:
			r.Fail("unknown setting: " + key)
		}
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if source == "" {
		source = model.Templates["tool_use"] + model.Templates["default"]
	}
	p := reader{auto: toolcalls.ForTemplate(source)}
	var err error
	p.format, err = p.choose(chosen)
	return p, err
}

// choose reads "auto", a name, or a format.
func (p reader) choose(raw []byte) (*toolcalls.Format, error) {
	r := params.Read(raw)
	if r.Peek() != '"' {
		return toolcalls.ReadFormat(raw)
	}
	name := r.String()
	if err := r.Close(); err != nil {
		return nil, err
	}
	if name == "auto" {
		return p.auto, nil
	}
	f, ok := toolcalls.Preset(name)
	if !ok {
		return nil, errors.New("format: " + strconv.Quote(name) + " is none of auto, " + strings.Join(toolcalls.Presets(), ", "))
	}
	return f, nil
}

// Validate implements what the server asks when a request is admitted.
func (p reader) Validate(raw []byte) error {
	_, err := p.of(raw)
	return err
}

// of is the format that a request's parameters choose.
func (p reader) of(raw []byte) (*toolcalls.Format, error) {
	if len(raw) == 0 {
		return p.format, nil
	}
	f := p.format
	r := params.Read(raw)
	for key := range r.Object() {
		if key != "format" {
			r.Fail("unknown parameter: " + key)
			continue
		}
		var err error
		if f, err = p.choose(r.Raw()); err != nil {
			r.Fail(err.Error())
		}
	}
	return f, r.Close()
}

// Begin implements tools.Plugin.
func (p reader) Begin(request tools.Request) (tools.Parser, error) {
	m, err := request.Read()
	if err != nil {
		return nil, err
	}
	f, err := p.of(m.Params)
	if err != nil {
		return nil, err
	}
	o := toolcalls.Options{Thinking: f.Thinking(m.PromptEnd), Seed: plugin.Rand()}
	switch m.Choice.Mode {
	case tools.None:
		o.Choice.Mode = toolcalls.None
	case tools.Required:
		o.Choice.Mode = toolcalls.Required
	case tools.Named:
		o.Choice.Mode, o.Choice.Name = toolcalls.Exact, m.Choice.Name
	}
	o.Choice.Single = !m.Parallel
	for _, t := range m.Tools {
		if len(t.Name) > abi.MaxName {
			return nil, errors.New("a tool's name has " + strconv.Itoa(len(t.Name)) + " bytes, more than " + strconv.Itoa(abi.MaxName))
		}
		o.Tools = append(o.Tools, toolcalls.Tool{Name: t.Name, Parameters: append([]byte(nil), t.Parameters...)})
	}
	return parser{toolcalls.New(f, o)}, nil
}

// parser is one message.
type parser struct{ *toolcalls.Parser }

// Feed implements tools.Parser.
func (p parser) Feed(piece string, special bool, out *tools.Events) {
	if special {
		tell(p.Special(piece), out)
		return
	}
	tell(p.Parser.Feed(piece), out)
}

// Finish implements tools.Parser.
func (p parser) Finish(_ bool, out *tools.Events) { tell(p.Parser.Finish(), out) }

var reasons = map[toolcalls.Reason]tools.Reason{
	toolcalls.Incomplete: tools.Incomplete, toolcalls.UnknownTool: tools.Unknown, toolcalls.Malformed: tools.Malformed,
	toolcalls.TooLong: tools.TooLong, toolcalls.TooMany: tools.TooMany,
}

// tell hands the library's events on.
func tell(events []toolcalls.Event, out *tools.Events) {
	for _, e := range events {
		switch e.Kind {
		case toolcalls.Content:
			out.Content(e.Text)
		case toolcalls.Reasoning:
			out.Reasoning(e.Text)
		case toolcalls.CallBegin:
			if len(e.ID) > abi.MaxName { // the model's own
				e.ID = tools.NewID()
			}
			out.Begin(e.Name, e.ID)
		case toolcalls.Arguments:
			out.Arguments(e.Text)
		case toolcalls.CallEnd:
			out.End()
		case toolcalls.CallFailed:
			out.Failed(reasons[e.Reason], e.Text)
		}
	}
}
