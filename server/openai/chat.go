package openai

import (
	"fmt"

	"tgi/server/dialect"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// chatBody is what a chat request has beside the settings.
type chatBody struct {
	settings
	conversation generate.Conversation
	maxTokens    *uint32 // under its newer name
	logprobs     bool
	top          *uint32
	tools        bool
	toolChoice   string
	speech       bool
}

// decodeChat reads a body of POST /v1/chat/completions.
func (a *API) decodeChat(text []byte, d *dialect.Dialect) (*call, error) {
	b := &chatBody{}
	list := append(b.settings.fields(), []wire.Field{
		{Name: "messages", Required: true, Read: b.messages},
		{Name: "max_completion_tokens", Read: wire.Optional(&b.maxTokens, (*wire.Reader).Uint32)},
		{Name: "logprobs", Read: boolean(&b.logprobs)},
		{Name: "top_logprobs", Read: wire.Optional(&b.top, (*wire.Reader).Uint32)},
		{Name: "chat_template_kwargs", Read: b.kwargs},
		{Name: "tools", Read: someOf(&b.tools)},
		{Name: "tool_choice", Read: b.choice},
		{Name: "functions", Read: unset("functions")},
		{Name: "modalities", Read: b.modalities},
	}...)
	err := wire.Decode(text, func(r *wire.Reader) error { return r.Object("struct ChatRequest", list) })
	if err != nil {
		return nil, err
	}
	switch {
	case b.tools && b.toolChoice != "none":
		return nil, noTools
	case b.speech:
		return nil, unsupported("modalities")
	}
	if b.maxTokens != nil {
		b.settings.maxTokens = b.maxTokens
	}
	c, err := a.call(&b.settings, &chatForm, d)
	if err != nil {
		return nil, err
	}
	if c.logprobs = b.logprobs; c.logprobs && b.top != nil {
		b.draft.TopNTokens = b.top
		c.top = int(*b.top)
	}
	b.draft.Conversation = &b.conversation
	c.drafts = []generate.Draft{b.draft}
	return c, nil
}

// messages reads the conversation.
func (b *chatBody) messages(r *wire.Reader) error {
	return r.Array(func(i int) error {
		m, err := b.message(r, i)
		b.conversation.Messages = append(b.conversation.Messages, m)
		return err
	})
}

func (b *chatBody) message(r *wire.Reader, i int) (generate.Message, error) {
	var m generate.Message
	var name, id *string
	err := r.Object("struct Message", []wire.Field{
		{Name: "role", Required: true, Read: wire.Into(&m.Role, (*wire.Reader).String)},
		{Name: "content", Read: content(&m, i)},
		{Name: "name", Read: wire.Optional(&name, (*wire.Reader).String)},
		{Name: "tool_calls", Read: calls(&m)},
		{Name: "tool_call_id", Read: wire.Optional(&id, (*wire.Reader).String)},
	})
	if err != nil {
		return m, err
	}
	if m.Content == nil && len(m.ToolCalls) == 0 {
		return m, r.Refuse("missing field `content`")
	}
	if name != nil {
		m.Name = *name
	}
	if id != nil {
		m.ToolCallID = *id
	}
	return m, nil
}

// content reads text, parts of text or null.
func content(m *generate.Message, i int) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return either(r, func(r *wire.Reader) error {
			s, err := r.String()
			m.Content = []generate.Part{{Text: s}}
			return err
		}, func(r *wire.Reader) error {
			m.Content = []generate.Part{}
			return r.Array(func(j int) error {
				p, err := part(r, i, j)
				m.Content = append(m.Content, p)
				return err
			})
		})
	}
}

// part reads one part of a message's content.
func part(r *wire.Reader, i, j int) (generate.Part, error) {
	kind := ""
	var text *string
	err := r.Object("struct MessageChunk", []wire.Field{
		{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
		{Name: "text", Read: wire.Optional(&text, (*wire.Reader).String)},
	})
	switch {
	case err != nil:
		return generate.Part{}, err
	case kind != "text":
		return generate.Part{}, &generate.Invalid{
			Msg:   fmt.Sprintf("`messages[%d].content[%d]`: parts of type `%.32s` are not supported, the model reads text only", i, j, kind),
			Field: "messages",
		}
	case text == nil:
		return generate.Part{}, r.Refuse("missing field `text`")
	}
	return generate.Part{Text: *text}, nil
}

// calls reads the tool calls of a message, or null.
func calls(m *generate.Message) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Array(func(int) error {
			var c generate.ToolCall
			err := r.Object("struct ToolCall", []wire.Field{
				{Name: "id", Read: wire.Into(&c.ID, (*wire.Reader).String)},
				{Name: "function", Required: true, Read: func(r *wire.Reader) error {
					return r.Object("struct FunctionCall", []wire.Field{
						{Name: "name", Required: true, Read: wire.Into(&c.Name, (*wire.Reader).String)},
						{Name: "arguments", Read: arguments(&c)},
					})
				}},
			})
			m.ToolCalls = append(m.ToolCalls, c)
			return err
		})
	}
}

// arguments reads an object, or its text as OpenAI has it.
func arguments(c *generate.ToolCall) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		return either(r, wire.Into(&c.Arguments, (*wire.Reader).String), func(r *wire.Reader) error {
			raw, err := r.RawObject()
			c.Arguments = string(raw)
			return err
		})
	}
}

// kwargs keeps the template's variables as they were written.
func (b *chatBody) kwargs(r *wire.Reader) (err error) {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	b.conversation.Kwargs, err = r.RawObject()
	return err
}

// choice reads tool_choice: a word, or an object that names a function.
func (b *chatBody) choice(r *wire.Reader) error {
	none := false
	return either(r, wire.Into(&b.toolChoice, (*wire.Reader).String), fields.Present(&none))
}

// modalities reads the kinds of output; text alone is the default.
func (b *chatBody) modalities(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	kinds, err := r.Strings()
	for _, k := range kinds {
		b.speech = b.speech || k != "text"
	}
	return err
}

// someOf reads a list, or null, and notes whether it holds anything.
func someOf(dst *bool) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Array(func(int) error {
			*dst = true
			return r.Skip()
		})
	}
}
