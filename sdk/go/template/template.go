// Package template is for plugins that render the conversation of a chat request
// into the text of the prompt.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "chatml", Version: "1.0.0"})
//		template.Register(func(config []byte) (template.Plugin, error) { return chatml{}, nil })
//	}
//
//	func main() {}
//
//	type chatml struct{}
//
//	func (chatml) Render(r template.Request, out *template.Output) error {
//		c, err := r.Read()
//		for _, m := range c.Messages {
//			out.Template("<|im_start|>")
//			out.Data(m.Role + "\n" + m.Content)
//			out.Template("<|im_end|>\n")
//		}
//		if c.AddGenerationPrompt {
//			out.Template("<|im_start|>assistant\n")
//		}
//		return err
//	}
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory: parse template sources there. The rendering of
// each conversation starts with the memory of the snapshot.
package template

import (
	"errors"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/params"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin renders conversations. The function given to [Register] makes it. A
// plugin that accepts parameters also has a method Validate(params []byte) error,
// which checks them when a request is admitted; Request has them again. Without
// this method, requests that have parameters are refused.
type Plugin interface {
	// Render writes the text of the prompt to out. It must not keep r or out. An
	// error refuses the request, and the client gets its text; the output is then
	// discarded.
	Render(r Request, out *Output) error
}

// Request is the JSON object that abi.Template describes.
type Request []byte

// Conversation has the members of a request.
type Conversation struct {
	Messages []chat.Message
	// Tools are the offered tools, or empty.
	Tools []chat.Tool
	// Documents is a JSON array, or nil.
	Documents []byte
	// AddGenerationPrompt is true if the prompt must end where the assistant's turn begins.
	AddGenerationPrompt bool
	// ContinueFinalMessage is true if the prompt must end where the last message ends.
	ContinueFinalMessage bool
	// Kwargs is the request's chat_template_kwargs, a JSON object or nil.
	Kwargs []byte
	// Template is the name of one of several templates, or empty.
	Template string
	// Now is the time of the request in RFC 3339, with its time zone.
	Now string
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Read reads the request. It ignores unknown members.
func (r Request) Read() (c Conversation, err error) {
	in := params.Read(r)
	for key := range in.Object() {
		if in.Null() {
			continue
		}
		switch key {
		case "messages":
			c.Messages = chat.ReadMessages(in)
		case "tools":
			c.Tools = chat.ReadTools(in)
		case "documents":
			c.Documents = in.Raw()
		case "add_generation_prompt":
			c.AddGenerationPrompt = in.Bool()
		case "continue_final_message":
			c.ContinueFinalMessage = in.Bool()
		case "kwargs":
			c.Kwargs = in.Raw()
		case "template":
			c.Template = in.String()
		case "now":
			c.Now = in.String()
		case "params":
			c.Params = in.Raw()
		default:
			in.Skip()
		}
	}
	return c, in.Close()
}

// Span is a range of a text, in bytes: from From to before To.
type Span struct{ From, To uint32 }

// Output collects the text and records which ranges of it are data. The server
// recognises no special tokens in data, so a user's text cannot forge one. Write
// everything that comes from the request with Data.
type Output struct {
	text  []byte
	spans []Span
	err   error
}

// Template appends text of the template itself. Special tokens in it are recognised.
func (o *Output) Template(text string) { o.put(text) }

// Data appends text that comes from the request. No special token in it is recognised.
func (o *Output) Data(text string) {
	from := uint32(len(o.text))
	if !o.put(text) || text == "" {
		return
	}
	if n := len(o.spans) - 1; n >= 0 && o.spans[n].To == from {
		o.spans[n].To = uint32(len(o.text))
		return
	}
	if len(o.spans) == abi.MaxSpans {
		o.err = errors.New("the rendered text has more than " + strconv.Itoa(abi.MaxSpans) + " stretches of data")
		return
	}
	o.spans = append(o.spans, Span{from, uint32(len(o.text))})
}

func (o *Output) put(text string) bool {
	if o.err == nil && len(text) > abi.MaxRendered-len(o.text) {
		o.err = errors.New("the rendered text is longer than " + strconv.Itoa(abi.MaxRendered) + " bytes")
	}
	if o.err != nil {
		return false
	}
	o.text = append(o.text, text...)
	return true
}

// Text returns the text written so far.
func (o *Output) Text() string { return string(o.text) }

// Spans returns the ranges of data in the text, in rising order and never adjacent.
func (o *Output) Spans() []Span { return o.spans }

// Err returns an error after more than abi.MaxRendered bytes or abi.MaxSpans ranges. It refuses the request.
func (o *Output) Err() error { return o.err }

// Register makes the guest a template plugin. Call it from an init function. The
// server calls open once with the configuration, a JSON object with a member
// "model" (see chat.ReadModel). open must not keep it. An error refuses the
// plugin.
func Register(open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindTemplate,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: func(params []byte, _ []uint32) error { return registry.Validate(current, params) },
	})
}

// current is the plugin of this instance.
var current Plugin

// render serves one call of the host.
func render(request []byte, out *Output) error {
	if err := current.Render(request, out); err != nil {
		return err
	}
	return out.err
}
