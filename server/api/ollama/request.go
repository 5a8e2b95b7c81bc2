package ollama

import (
	"encoding/json"
	"strconv"
	"time"

	"tgi/runtime/llm"
	"tgi/server/api/deltas"
	"tgi/server/api/toolset"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// call is a request of /api/chat or /api/generate, decoded.
type call struct {
	named   string // the model that the body names
	model   *dispatch.Model
	draft   generate.Draft
	shown   deltas.Settings
	keep    *time.Duration
	ignored []string
	// chat: the reply has messages. stream: in lines. raw: the prompt is no conversation.
	chat, stream, raw bool
	// empty: there is nothing to answer, and the model is loaded or unloaded alone.
	empty bool
	// truncate leaves out the oldest messages that do not fit.
	truncate bool
	// top is how many likeliest tokens are shown for each.
	top int
	// thinks: the request wants the model to think.
	thinks bool
	// text is the prompt of /api/generate where that is a conversation; system: it has words of the system.
	text   string
	system bool
}

// body is a request while it is read.
type body struct {
	call
	options      options
	conversation generate.Conversation
	tools        toolset.Set
	logprobs     bool
	think        thinking
	asked        asked // /api/generate
}

// asked are members that /api/generate alone has.
type asked struct {
	prompt, suffix, system, template string
	images                           []string
}

// thinking is the member think: a boolean, or how much.
type thinking struct {
	given, on bool
	level     string
}

// decodeChat reads a body of /api/chat.
func decodeChat(text []byte) (*call, error) {
	b := newBody(true)
	list := append(b.fields(), wire.Field{Name: "messages", Read: b.messages},
		wire.Field{Name: "tools", Read: b.readTools})
	if err := b.decode(text, "struct ChatRequest", list); err != nil {
		return nil, err
	}
	b.empty = len(b.conversation.Messages) == 0
	if err := b.tools.Apply(&b.conversation); err != nil {
		return nil, err
	}
	b.conversation.Parallel = true
	if g := b.draft.Grammar; g != nil && len(b.conversation.ToolNames) > 0 {
		b.conversation.Answer = g
	}
	b.draft.Conversation = &b.conversation
	return b.finish()
}

// decodeGenerate reads a body of /api/generate.
func decodeGenerate(text []byte) (*call, error) {
	b := newBody(false)
	q := &b.asked
	list := append(b.fields(), wire.Field{Name: "prompt", Read: fields.Text(&q.prompt)},
		wire.Field{Name: "suffix", Read: fields.Text(&q.suffix)},
		wire.Field{Name: "system", Read: fields.Text(&q.system)},
		wire.Field{Name: "template", Read: fields.Text(&q.template)},
		wire.Field{Name: "raw", Read: fields.Flag(&b.raw)},
		wire.Field{Name: "context", Read: b.readContext}, wire.Field{Name: "images", Read: readImages(&q.images)})
	if err := b.decode(text, "struct GenerateRequest", list); err != nil {
		return nil, err
	}
	switch {
	case b.raw && (q.template != "" || q.system != "" || len(b.draft.Before) > 0):
		return nil, refused(400, "raw mode does not support template, system, or context")
	case q.template != "":
		return nil, invalid("template", "`template` is not supported: what templates are rendered is the operator's to "+
			"say (`raw` takes a prompt as it is)")
	case q.suffix != "":
		return nil, refused(400, "%q does not support insert", llm.Shorten(b.named))
	case b.raw && len(q.images) > 0:
		return nil, invalid("images", "`images` and `raw` exclude each other")
	}
	if b.empty = q.prompt == "" && len(q.images) == 0; b.empty {
		return b.finish()
	}
	if b.raw {
		b.draft.Inputs = q.prompt
		return b.finish()
	}
	b.text, b.system = q.prompt, q.system != ""
	if b.system {
		b.add(&message{role: "system", content: q.system})
	}
	b.add(&message{role: "user", content: q.prompt, images: q.images, at: "images"})
	b.draft.Conversation = &b.conversation
	return b.finish()
}

func newBody(chat bool) *body {
	b := &body{tools: toolset.Set{MaxName: maxToolName}}
	b.chat, b.stream, b.truncate = chat, true, true
	b.options.draft = &b.draft
	return b
}

// maxToolName is the greatest length of a tool's name.
const maxToolName = 128

func (b *body) decode(text []byte, want string, list []wire.Field) error {
	err := fields.Decode(text, want, list, &b.draft)
	if err == nil && b.named == "" {
		return errNoModel
	}
	return err
}

// fields are those that both routes have, Ollama's and those that this server has beside them.
func (b *body) fields() []wire.Field {
	var shift bool
	messages := fields.Messages(nil)
	if b.chat {
		messages = otherMessages
	}
	list := append(fields.Template(&b.conversation), fields.Guidance(&b.draft.Guidance, messages)...)
	return append([]wire.Field{
		{Name: "model", Read: fields.Text(&b.named)},
		{Name: "stream", Read: unlessNull(&b.stream)},
		{Name: "format", Read: b.format},
		{Name: "options", Read: b.options.read},
		{Name: "keep_alive", Read: readKeepAlive(&b.keep)},
		{Name: "think", Read: b.think.read},
		{Name: "truncate", Read: unlessNull(&b.truncate)},
		{Name: "shift", Read: fields.Flag(&shift)}, // the context is not shifted: a text ends with it
		{Name: "logprobs", Read: fields.Flag(&b.logprobs)},
		{Name: "top_logprobs", Read: wire.Optional(&b.draft.TopNTokens, (*wire.Reader).Uint32)},
		{Name: "_debug_render_only", Read: fields.Unset("_debug_render_only")},
		{Name: "plugins", Read: fields.Plugins(&b.draft.Plugins)},
		fields.Explain(&b.draft.Explain), fields.Prediction(&b.draft),
	}, list...)
}

// unlessNull returns a Field.Read of a boolean that null leaves as it is.
func unlessNull(dst *bool) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return wire.Into(dst, (*wire.Reader).Bool)(r)
	}
}

// format reads "json", a JSON Schema, or nothing: null and "".
func (b *body) format(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	if !isText(r) {
		source, err := r.RawObject()
		if err != nil {
			return err
		}
		return fields.Hold(&b.draft.Grammar, &generate.Grammar{Language: generate.JSONSchema, Source: source}, "format")
	}
	switch word, err := r.String(); {
	case err != nil || word == "":
		return err
	case word == "json":
		return fields.Hold(&b.draft.Grammar, &generate.Grammar{Language: generate.JSONObject}, "format")
	default:
		return invalid("format", "`format` must be \"json\" or a JSON Schema. Given: %.32q", word)
	}
}

// read reads true, false, a level or null.
func (t *thinking) read(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	if !isText(r) {
		t.given = true
		return wire.Into(&t.on, (*wire.Reader).Bool)(r)
	}
	err := fields.Word(&t.level, "low", "medium", "high", "max")(r)
	t.on = t.level != ""
	t.given = t.on
	return err
}

// isText reports whether the next value is a string.
func isText(r *wire.Reader) bool {
	probe := *r
	raw, _ := probe.Raw() // what is no JSON fails when it is read
	return wire.IsText(raw)
}

// readContext reads the tokens of an earlier reply, or null.
func (b *body) readContext(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		id, err := r.Uint32()
		b.draft.Before = append(b.draft.Before, id)
		return err
	})
}

// readTools reads the tools that are offered, or null.
func (b *body) readTools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error {
		o := toolset.Offer{Place: "#/tools/" + strconv.Itoa(i) + "/function"}
		var kind, description string
		var parameters []byte
		err := r.Object("struct Tool", []wire.Field{
			{Name: "type", Read: fields.Word(&kind, "function")},
			{Name: "function", Required: true, Read: func(r *wire.Reader) error {
				return r.Object("struct ToolFunction", []wire.Field{
					{Name: "name", Required: true,
						Read: func(r *wire.Reader) error { return b.tools.ReadName(r, &o.Name) }},
					{Name: "description", Read: fields.Text(&description)},
					{Name: "parameters", Read: func(r *wire.Reader) error {
						if none, err := r.Null(); none || err != nil {
							return err
						}
						return wire.Into(&parameters, (*wire.Reader).RawObject)(r)
					}},
					{Name: "strict", Read: fields.Flag(&o.Strict)}, // which Ollama does not know
				})
			}},
		})
		if err != nil {
			return err
		}
		o.SetFunction(description, parameters)
		b.tools.Offers = append(b.tools.Offers, o)
		return nil
	})
}

// finish brings together what several members say.
func (b *body) finish() (*call, error) {
	b.options.finish()
	d := &b.draft
	d.Stream = b.stream
	b.shown.Logprobs = b.logprobs
	if !b.logprobs {
		d.TopNTokens = nil
	} else if d.TopNTokens != nil {
		b.top = int(*d.TopNTokens)
	}
	if t := &b.think; t.given {
		fields.SetVariable(&b.conversation, "enable_thinking", strconv.AppendBool(nil, t.on))
		if t.level != "" {
			level, err := json.Marshal(t.level)
			if err != nil {
				return nil, err
			}
			fields.SetVariable(&b.conversation, "reasoning_effort", level)
		}
		b.thinks = t.on
	}
	b.ignored = append(b.options.ignored, b.draft.Unknown...)
	return &b.call, nil
}
