package ollama

import (
	"fmt"
	"slices"
	"strings"

	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// message is one of a conversation while it is read.
type message struct {
	at                      string // what errors call its images
	role, content, thinking string
	toolName, result        string // what a tool's message answers: the name of the tool, the id of the call
	images                  []string
	calls                   []toolCall
}

// toolCall is a call that an assistant made.
type toolCall struct {
	id, name  string
	arguments []byte // an object
}

// messages reads the conversation, or null.
func (b *body) messages(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	var open []toolCall // calls that no tool has answered yet
	made := 0
	return r.Array(func(i int) error {
		m := message{at: fmt.Sprintf("messages[%d].images", i)}
		err := r.Object("struct Message", []wire.Field{
			{Name: "role", Required: true, Read: m.readRole},
			{Name: "content", Read: fields.Text(&m.content)}, {Name: "thinking", Read: fields.Text(&m.thinking)},
			{Name: "images", Read: readImages(&m.images)}, {Name: "tool_calls", Read: m.readCalls},
			{Name: "tool_name", Read: fields.Text(&m.toolName)}, {Name: "tool_call_id", Read: fields.Text(&m.result)},
		})
		if err != nil {
			return err
		}
		for k := range m.calls {
			if made++; m.calls[k].id == "" {
				m.calls[k].id = fmt.Sprintf("call%05d", made) // nine letters and digits, which Mistral's templates want
			}
		}
		open = append(open, m.calls...)
		if m.role == "tool" {
			open = m.answer(open)
		}
		b.add(&m)
		return nil
	})
}

// otherMessages reads a second conversation.
func otherMessages(r *wire.Reader) ([]generate.Message, error) {
	b := newBody(true)
	err := b.messages(r)
	return b.conversation.Messages, err
}

// readRole reads who speaks, in any case, as Ollama does.
func (m *message) readRole(r *wire.Reader) error {
	role, err := r.String()
	if m.role = strings.ToLower(role); err != nil || slices.Contains([]string{"system", "user", "assistant", "tool"},
		m.role) {
		return err
	}
	return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected one of `system`, `user`, `assistant`, `tool`", role))
}

// answer gives a tool's message the call that it answers, unless it says so itself: the oldest of the tool that it
// names, or of any. It returns those that are still open.
func (m *message) answer(open []toolCall) []toolCall {
	i := slices.IndexFunc(open, func(c toolCall) bool {
		return c.id == m.result || m.result == "" && (m.toolName == "" || c.name == m.toolName)
	})
	if i < 0 {
		return open
	}
	m.result, m.toolName = open[i].id, open[i].name
	return slices.Delete(open, i, i+1)
}

// readImages returns a Field.Read of a list of pictures in base64, or null.
func readImages(dst *[]string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return wire.Into(dst, (*wire.Reader).Strings)(r)
	}
}

// readCalls reads calls of tools, or null.
func (m *message) readCalls(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		c := toolCall{arguments: []byte("{}")}
		var index *int32
		err := r.Object("struct ToolCall", []wire.Field{
			{Name: "id", Read: fields.Text(&c.id)},
			{Name: "function", Required: true, Read: func(r *wire.Reader) error {
				return r.Object("struct ToolCallFunction", []wire.Field{
					{Name: "name", Required: true, Read: wire.Into(&c.name, (*wire.Reader).String)},
					{Name: "index", Read: wire.Optional(&index, integer)},
					{Name: "arguments", Read: func(r *wire.Reader) error {
						if none, err := r.Null(); none || err != nil {
							return err
						}
						return wire.Into(&c.arguments, (*wire.Reader).RawObject)(r)
					}},
				})
			}},
		})
		m.calls = append(m.calls, c)
		return err
	})
}

// add adds a message as templates read it.
func (b *body) add(m *message) {
	out := generate.Message{Role: m.role, Calls: len(m.calls) > 0}
	j := wire.AppendString([]byte(`{"role":`), m.role)
	if m.role == "tool" {
		if m.result != "" {
			j = wire.AppendString(append(j, `,"tool_call_id":`...), m.result)
		}
		if m.toolName != "" {
			j = wire.AppendString(append(j, `,"name":`...), m.toolName)
		}
	}
	var parts []generate.Part
	for i, image := range m.images {
		parts = append(parts, generate.Part{Image: &generate.Image{URL: dataURI(image),
			Place: fmt.Sprintf("%s[%d]", m.at, i)}})
	}
	if m.content != "" || len(parts) == 0 {
		parts = append(parts, generate.Part{Text: m.content})
	}
	if j = append(j, `,"content":`...); m.content == "" && len(m.calls) > 0 && len(m.images) == 0 {
		j = append(j, "null"...)
	} else {
		j = out.AppendContent(j, parts)
	}
	if m.thinking != "" {
		j = wire.AppendString(append(j, `,"reasoning_content":`...), m.thinking)
	}
	if len(m.calls) > 0 {
		j = append(j, `,"tool_calls":[`...)
		for i, c := range m.calls {
			j = wire.AppendString(append(wire.Comma(j, i), `{"id":`...), c.id)
			j = wire.AppendString(append(j, `,"type":"function","function":{"name":`...), c.name)
			j = append(append(append(j, `,"arguments":`...), c.arguments...), `}}`...)
		}
		j = append(j, ']')
	}
	out.JSON = append(j, '}')
	b.conversation.Messages = append(b.conversation.Messages, out)
}

// dataURI is a picture in base64 as the readers of pictures know it.
func dataURI(picture string) string {
	if strings.HasPrefix(picture, "data:") {
		return picture
	}
	return "data:;base64," + picture
}
