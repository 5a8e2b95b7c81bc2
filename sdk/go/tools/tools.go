// Package tools is the kind of plugin that turns the text that a model writes
// into content, reasoning and tool calls.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory. Each message that the model writes has a
// [Parser] of its own.
//
// The same text must give the same events however it is cut into pieces, but
// for where their texts are cut; plugintest.Splits checks it.
package tools

import (
	"errors"

	"tgi/sdk/abi"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

// Plugin is what the function given to [Register] makes. One that takes
// parameters of requests has a method Validate(params []byte) error too, which
// refuses bad ones when the request is admitted; they come again in the
// request. Without it a request that has any is refused. One that can say what
// right calls look like is a [Constrainer] too.
type Plugin interface {
	// Begin starts a message. It may not keep r. An error ends the request.
	Begin(r Request) (Parser, error)
}

// Parser reads one message.
type Parser interface {
	// Feed takes the next piece of text, which may be kept. special says that
	// it is the text of one special token: markup of the model, and never
	// content.
	Feed(piece string, special bool, out *Events)
	// Finish ends the text; cut says that the length limit did. It is the last
	// call.
	Finish(cut bool, out *Events)
}

// Request is the JSON object that abi.Tools describes.
type Request []byte

// Message is a request with its members read.
type Message struct {
	// Tools is empty when none are offered.
	Tools []chat.Tool
	// Choice says what the request demands of calls.
	Choice Choice
	// Parallel: more than one call is allowed.
	Parallel bool
	// PromptEnd is the last 1024 bytes, or fewer, of the prompt's text: by it
	// one tells whether the message begins inside reasoning.
	PromptEnd string
	// Answer is what a message that is no call is to be; nil for anything. Only a
	// [Constrainer] has to look at it.
	Answer *Answer
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Answer is a grammar, as requests for plugins of kind "grammar" have it.
type Answer struct {
	// Language of Source: "json_schema", "json_object" with an empty source, or others.
	Language, Source string
	// Params is a JSON object for the grammar's plugin, or nil.
	Params []byte
}

// Choice is OpenAI's tool_choice.
type Choice struct {
	// Mode is "auto", "none", "required", or "named": a call of the tool Name.
	Mode, Name string
}

// The modes of a Choice.
const (
	Auto     = "auto"
	None     = "none"
	Required = "required"
	Named    = "named"
)

// Read reads the request. Members that it does not know are passed over.
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
	Unknown    Reason = abi.FailedUnknown    // the tool was not offered, or another was demanded
	Malformed  Reason = abi.FailedMalformed  // not what the format demands, or no JSON object
	TooLong    Reason = abi.FailedTooLong    // longer or deeper than the parser takes
	TooMany    Reason = abi.FailedTooMany    // more calls than are allowed
)

// Event is one of what a parser told. Which fields mean something is said at
// the method of [Events] that made it; the others are zero.
type Event struct {
	Kind     uint32 // abi.EventContent to abi.EventFailed
	Index    int    // of the call, from 0; -1 of a failure before any began
	Text     string
	Name, ID string
	Reason   Reason
}

// Events collects what a parser tells during one call. Texts are not copied.
type Events struct {
	list  []Event
	begun int // calls so far
	open  bool
}

// Content tells a part of the answer. Empty texts are left out, here and below.
func (e *Events) Content(text string) { e.text(Event{Kind: abi.EventContent, Text: text}) }

// Reasoning tells a part of what the model thinks.
func (e *Events) Reasoning(text string) { e.text(Event{Kind: abi.EventReasoning, Text: text}) }

// Begin opens the next call. The id is what the client sees; [NewID] makes one.
// One call is open at a time: End or Failed closes it.
func (e *Events) Begin(name, id string) {
	if e.open {
		panic("BUG: tools: Begin while a call is open")
	}
	e.list = append(e.list, Event{Kind: abi.EventBegin, Index: e.begun, Name: name, ID: id})
	e.begun, e.open = e.begun+1, true
}

// Arguments tells the next part of the open call's arguments. Together they
// must be a JSON object when the call ends.
func (e *Events) Arguments(text string) {
	e.text(Event{Kind: abi.EventArguments, Index: e.current("Arguments"), Text: text})
}

// End says that the open call is complete and may be executed.
func (e *Events) End() {
	e.list = append(e.list, Event{Kind: abi.EventEnd, Index: e.current("End")})
	e.open = false
}

// Failed says that a call can't be used: the open one, or one that had not
// begun. text is what the model wrote of it.
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

// Take returns what was told since the last Take. The slice is the caller's
// until the next call of any method.
func (e *Events) Take() []Event {
	list := e.list
	e.list = e.list[:0]
	return list
}

// NewID makes the id of a call as OpenAI's are, of the host's random numbers:
// the same for the same seed of the request.
func NewID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := []byte("call_")
	for range 24 {
		id = append(id, alphabet[plugin.Rand()>>32*uint64(len(alphabet))>>32])
	}
	return string(id)
}

// Register makes the guest a tools plugin. Call it from an init function; open
// gets the JSON object of the plugin's configuration, with a member "model"
// (see chat.ReadModel), which it may not keep. An error refuses the plugin.
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
