// Command guest is the built-in parser of tool calls: package toolcalls behind
// the contract of sdk/abi.
package main

import (
	"errors"
	"runtime/debug"
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
		Name: "toolcalls", Version: "1.0.0", Config: true,
		Doc: "Reads reasoning and tool calls in the formats that models write.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"format":{"type":["string","object"],"description":"auto, the name of a built-in format, or a format; default: that of the configuration"}}}`,
	})
	tools.Register(open)
}

func main() {}

// reader is the model's format.
type reader struct {
	format   *toolcalls.Format
	auto     *toolcalls.Format
	template string
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
	p := reader{auto: toolcalls.ForTemplate(source), template: source}
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
		return nil, errors.New("format: " + strconv.Quote(name) + " is none of auto, " +
			strings.Join(toolcalls.Presets(), ", "))
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
	f, d, err := p.demand(request)
	if err != nil {
		return nil, err
	}
	return parser{toolcalls.New(f, toolcalls.Options{Tools: d.Tools, Choice: d.Choice, Thinking: d.Thinking,
		Seed: plugin.Rand()})}, nil
}

// demand reads a request, and the format that it is for.
func (p reader) demand(request tools.Request) (f *toolcalls.Format, d toolcalls.Demand, err error) {
	m, err := request.Read()
	if err != nil {
		return nil, d, err
	}
	if f, err = p.of(m.Params); err != nil {
		return nil, d, err
	}
	d.Thinking = f.Thinking(m.PromptEnd)
	switch m.Choice.Mode {
	case tools.None:
		d.Choice.Mode = toolcalls.None
	case tools.Required:
		d.Choice.Mode = toolcalls.Required
	case tools.Named:
		d.Choice.Mode, d.Choice.Name = toolcalls.Exact, m.Choice.Name
	}
	d.Choice.Single = !m.Parallel
	d.Answer = answer(m.Answer)
	for _, t := range m.Tools {
		if len(t.Name) > abi.MaxName {
			return nil, d, errors.New("a tool's name has " + strconv.Itoa(len(t.Name)) + " bytes, more than " +
				strconv.Itoa(abi.MaxName))
		}
		d.Tools = append(d.Tools, toolcalls.Tool{Name: t.Name, Parameters: append([]byte(nil), t.Parameters...),
			Strict: t.Strict})
	}
	return f, d, nil
}

// answer is what an answer is held to. One in another language, or with parameters of its own, is none that can stand
// beside calls.
func answer(a *tools.Answer) *toolcalls.Answer {
	if a == nil {
		return nil
	}
	out := &toolcalls.Answer{Language: a.Language, Source: a.Source}
	r := params.Read(a.Params)
	if len(a.Params) == 0 {
		r = params.Read([]byte("{}"))
	}
	for key := range r.Object() {
		if key == "lenient" {
			out.Loose = r.Bool()
		} else {
			r.Fail("another parameter")
		}
	}
	if r.Close() != nil {
		return nil
	}
	source := params.Read([]byte(a.Source))
	switch a.Language {
	case "json_object":
		return &toolcalls.Answer{Language: "json_schema", Source: `{"type":"object"}`}
	case "json_schema":
		source.Skip()
	case "choice":
		for range source.Array() {
			_ = source.String()
		}
	case "regex", "gbnf", "lark":
		return out
	default:
		return nil
	}
	if source.Close() != nil {
		return nil
	}
	return out
}

// Constraint implements tools.Constrainer.
func (p reader) Constraint(request tools.Request) (out tools.Constraint, err error) {
	debug.SetGCPercent(-1) // the instance is thrown away: what is garbage need not be found
	debug.SetMemoryLimit(maxHeap)
	f, d, err := p.demand(request)
	if err != nil {
		return out, err
	}
	d.Split = split
	d.Reasons = f.Reasons(p.template, isToken)
	c, err := f.Constraint(d)
	if err != nil {
		return out, err
	}
	out = tools.Constraint{Language: "structural_tag", Source: c.Source, Optional: c.Optional, Answer: c.Answer}
	if o := c.Reasoning; o != nil {
		out.Reasoning = &tools.Reasoning{Open: o.Open, Begin: o.Begin, End: o.End}
	}
	for _, l := range c.Places {
		out.Places = append(out.Places, tools.Place(l))
	}
	for _, x := range c.Dropped {
		out.Dropped = append(out.Dropped, tools.Dropped(x))
	}
	return out, nil
}

// maxHeap is what may be used of a plugin's memory before garbage is looked for, in bytes.
const maxHeap = 40 << 20

// isToken says whether a marker is one token of the vocabulary.
func isToken(marker string) bool {
	ids, ok := plugin.Encode(marker)
	return ok && len(ids) == 1
}

// split cuts a marker into the model's special tokens and the text between them.
func split(marker string) (all []toolcalls.Piece) {
	ids, ok := plugin.Encode(marker)
	if !ok {
		return []toolcalls.Piece{{Text: marker}}
	}
	for _, id := range ids {
		if !plugin.IsSpecial(id) {
			continue
		}
		b, _ := plugin.TokenBytes(id)
		before, behind, found := strings.Cut(marker, string(b))
		if !found || len(b) == 0 {
			continue
		}
		if before != "" {
			all = append(all, toolcalls.Piece{Text: before})
		}
		all = append(all, toolcalls.Piece{Text: string(b), Special: true, End: plugin.IsEnd(id)})
		marker = behind
	}
	if marker != "" {
		all = append(all, toolcalls.Piece{Text: marker})
	}
	return all
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
