// Package template is the kind of plugin that turns the conversation of a chat
// request into the text that the model reads.
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
// snapshot of the guest's memory: what it needs of files is parsed there. Each
// conversation is rendered in memory that is as it was in the snapshot.
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

// Plugin is what the function given to [Register] makes. One that takes
// parameters of requests has a method Validate(params []byte) error too, which
// refuses bad ones when the request is admitted; they come again in the
// request. Without it a request that has any is refused.
type Plugin interface {
	// Render writes the conversation's text. It may keep neither argument. An
	// error refuses the request, and its text goes to the client; what was
	// written counts for nothing then.
	Render(r Request, out *Output) error
}

// Request is the JSON object that abi.Template describes.
type Request []byte

// Conversation is a request with its members read.
type Conversation struct {
	Messages []chat.Message
	// Tools is empty when none are offered.
	Tools []chat.Tool
	// Documents is a JSON array, nil when there are none.
	Documents []byte
	// AddGenerationPrompt: end where the assistant's turn begins.
	AddGenerationPrompt bool
	// ContinueFinalMessage: end where the last message ends.
	ContinueFinalMessage bool
	// Kwargs is a JSON object, the request's chat_template_kwargs, or nil.
	Kwargs []byte
	// Template is the name of one of several templates, or empty.
	Template string
	// Now is the time of the request, RFC 3339 with its zone.
	Now string
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
}

// Read reads the request. Members that it does not know are passed over.
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

// Span is a stretch of a text, from and to in bytes.
type Span struct{ From, To uint32 }

// Output collects the text and what of it is data. In data the server
// recognises no special token, so that a user's text can't forge one: write as
// Data whatever comes from the request.
type Output struct {
	text  []byte
	spans []Span
	err   error
}

// Template appends text of the template itself.
func (o *Output) Template(text string) { o.put(text) }

// Data appends text that comes from the request.
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

// Text is what has been written so far.
func (o *Output) Text() string { return string(o.text) }

// Spans are the stretches of data in it, rising and not touching.
func (o *Output) Spans() []Span { return o.spans }

// Err says that more was written than the server takes. It then refuses the request with it.
func (o *Output) Err() error { return o.err }

// Register makes the guest a template plugin. Call it from an init function;
// open gets the JSON object of the plugin's configuration, with a member
// "model" (see chat.ReadModel), which it may not keep. An error refuses the
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

// render is one call.
func render(request []byte, out *Output) error {
	if err := current.Render(request, out); err != nil {
		return err
	}
	return out.err
}
