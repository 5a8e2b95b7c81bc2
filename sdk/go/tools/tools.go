// Package tools is for plugins that split the text that a model writes into
// content, reasoning and tool calls.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. Each message that the model writes has a
// [Parser] of its own.
//
// The same text must give the same events however it is split into pieces. Only
// the boundaries between their texts can differ. plugintest.Splits checks this.
package tools

import (
	"errors"

	"tgi/sdk/abi"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

// Plugin starts messages. The function given to [Register] makes it. A plugin
// that accepts parameters also has a method Validate(params []byte) error, which
// checks them when a request is admitted; Request has them again. Without this
// method, requests that have parameters are refused. A plugin that can describe
// valid calls by a grammar also implements [Constrainer].
type Plugin interface {
	// Begin starts a message. It must not keep r. An error ends the request.
	Begin(r Request) (Parser, error)
}

// Parser reads one message.
type Parser interface {
	// Feed reads the next piece of text and may keep it. If special is true,
	// the piece is the text of one special token, which is markup of the model
	// and never content.
	Feed(piece string, special bool, out *Events)
	// Finish ends the text and is the last call. cut is true if the text was
	// truncated at the length limit.
	Finish(cut bool, out *Events)
}

// Request is the JSON object that abi.Tools describes.
type Request []byte

// Message has the members of a request.
type Message struct {
	// Tools are the offered tools, or empty.
	Tools []chat.Tool
	// Choice is whether calls are allowed or required.
	Choice Choice
	// Parallel is true if more than one call is allowed.
	Parallel bool
	// PromptEnd is the end of the prompt's text, at most 1024 bytes. It shows
	// whether the message begins inside reasoning.
	PromptEnd string
	// Answer constrains a message that is not a call; nil for no constraint. Only
	// a [Constrainer] must read it.
	Answer *Answer
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Answer is a grammar, in the same fields as a request to a plugin of kind "grammar".
type Answer struct {
	// Language of Source: "json_schema", "json_object" with an empty Source, or another one.
	Language, Source string
	// Params are the parameters of the grammar's plugin, a JSON object or nil.
	Params []byte
}

// Choice is OpenAI's tool_choice.
type Choice struct {
	// Mode is "auto", "none", "required", or "named", which requires a call of the tool Name.
	Mode, Name string
}

// The modes of a Choice.
const (
	Auto     = "auto"
	None     = "none"
	Required = "required"
	Named    = "named"
)

// Read reads the request. It ignores unknown members.
func (r Request) Read() (m Message, err error) {
	m.Choice.Mode, m.Parallel = Auto, true
	in := params.Read(r)
	for key := range in.Object() {
		if in.Null() {
			continue
		}
		switch key {
		case "tools":
			m.Tools = chat.ReadTools(in)
		case "tool_choice":
			m.Choice = readChoice(in)
		case "parallel_tool_calls":
			m.Parallel = in.Bool()
		case "prompt_end":
			m.PromptEnd = in.String()
		case "answer":
			m.Answer = readAnswer(in)
		case "params":
			m.Params = in.Raw()
		default:
			in.Skip()
		}
	}
	return m, in.Close()
}

func readAnswer(r *params.Reader) *Answer {
	a := new(Answer)
	for key := range r.Object() {
		switch key {
		case "language":
			a.Language = r.String()
		case "source":
			a.Source = r.String()
		case "params":
			a.Params = r.Raw()
		default:
			r.Skip()
		}
	}
	return a
}

func readChoice(r *params.Reader) (c Choice) {
	if r.Peek() == '"' {
		if c.Mode = r.String(); c.Mode != Auto && c.Mode != None && c.Mode != Required {
			r.Fail("tool_choice: want auto, none, required or an object with a name")
		}
		return c
	}
	c.Mode = Named
	for key := range r.Object() {
		if key == "name" {
			c.Name = r.String()
		} else {
			r.Skip()
		}
	}
	return c
}

// Reason says why a call failed.
type Reason uint32

// The reasons.
const (
	Incomplete Reason = abi.FailedIncomplete // the text ended inside the call
	Unknown    Reason = abi.FailedUnknown    // the tool was not offered, or another was required
	Malformed  Reason = abi.FailedMalformed  // not in the format, or the arguments are no JSON object
	TooLong    Reason = abi.FailedTooLong    // longer or deeper than the parser accepts
	TooMany    Reason = abi.FailedTooMany    // more calls than are allowed
)

// Event is one event of a parser. It has the fields that are arguments of the
// method of [Events] that added it; the others are zero.
type Event struct {
	Kind     uint32 // abi.EventContent to abi.EventFailed
	Index    int    // of the call, from 0; -1 if a call failed before it began
	Text     string
	Name, ID string
	Reason   Reason
}

// Events collects the events of a parser during one call of it. Texts are not copied.
type Events struct {
	list  []Event
	begun int // number of calls begun
	open  bool
}

// Content adds a part of the answer. Here and below, an empty text adds no event.
func (e *Events) Content(text string) { e.text(Event{Kind: abi.EventContent, Text: text}) }

// Reasoning adds a part of the model's reasoning.
func (e *Events) Reasoning(text string) { e.text(Event{Kind: abi.EventReasoning, Text: text}) }

// Begin opens the next call. The client sees the id, which [NewID] can make.
// Only one call can be open: End or Failed closes it.
func (e *Events) Begin(name, id string) {
	if e.open {
		panic("BUG: tools: Begin while a call is open")
	}
	e.list = append(e.list, Event{Kind: abi.EventBegin, Index: e.begun, Name: name, ID: id})
	e.begun, e.open = e.begun+1, true
}

// Arguments adds the next part of the open call's arguments. When the call ends,
// the parts together must be a JSON object.
func (e *Events) Arguments(text string) {
	e.text(Event{Kind: abi.EventArguments, Index: e.current("Arguments"), Text: text})
}

// End ends the open call: it is complete and may be executed.
func (e *Events) End() {
	e.list = append(e.list, Event{Kind: abi.EventEnd, Index: e.current("End")})
	e.open = false
}

// Failed adds a call that cannot be used: the open call, or one that had not
// begun. text is the text of the call that the model wrote.
func (e *Events) Failed(why Reason, text string) {
	index := -1
	if e.open {
		index = e.begun - 1
	}
	e.list = append(e.list, Event{Kind: abi.EventFailed, Index: index, Reason: why, Text: text})
	e.open = false
}

func (e *Events) text(x Event) {
	if x.Text != "" {
		e.list = append(e.list, x)
	}
}

func (e *Events) current(method string) int {
	if !e.open {
		panic("BUG: tools: " + method + " without an open call")
	}
	return e.begun - 1
}

// Take returns the events added since the last Take. The slice is valid until
// the next call of any method.
func (e *Events) Take() []Event {
	list := e.list
	e.list = e.list[:0]
	return list
}

// NewID returns an id of a call in OpenAI's form. It is made of the host's random
// numbers, so requests with the same seed get the same ids.
func NewID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := []byte("call_")
	for range 24 {
		id = append(id, alphabet[plugin.Rand()>>32*uint64(len(alphabet))>>32])
	}
	return string(id)
}

// Register makes the guest a tools plugin. Call it from an init function. The
// server calls open once with the configuration, a JSON object with a member
// "model" (see chat.ReadModel). open must not keep it. An error refuses the plugin.
func Register(open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindTools,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: func(params []byte, _ []uint32) error { return registry.Validate(current, params) },
	})
}

// current, parser and events are the state of this instance: one plugin, one message.
var (
	current Plugin
	parser  Parser
	events  Events
)

func begin(request []byte) (err error) {
	events = Events{}
	if parser, err = current.Begin(request); err == nil && parser == nil {
		err = errors.New("no parser")
	}
	return err
}
