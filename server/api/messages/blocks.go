package messages

import (
	"fmt"
	"strings"

	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// messages reads the turns of the conversation.
func (b *body) messages(r *wire.Reader) error {
	return r.Array(func(i int) error {
		t := &turnReader{body: b, at: fmt.Sprintf("messages[%d]", i)}
		err := r.Object("struct Message", []wire.Field{
			{Name: "role", Required: true, Read: fields.Given(&t.role, "user", "assistant", "system")},
			{Name: "content", Required: true, Read: t.content},
		})
		if err != nil {
			return err
		}
		t.flush()
		list := t.before
		if len(list) == 0 || len(t.parts) > 0 || t.called > 0 || t.thoughts.Len() > 0 {
			list = append(list, t.messages()...)
		}
		b.conversation.Messages = append(b.conversation.Messages, list...)
		return nil
	})
}

// otherMessages reads a second conversation.
func otherMessages(r *wire.Reader) ([]generate.Message, error) {
	b := &body{called: map[string]string{}}
	err := b.messages(r)
	return b.conversation.Messages, err
}

// readSystem reads the system prompt: a text, or blocks of text, each a paragraph.
func (b *body) readSystem(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	t := &turnReader{body: b, at: "system", role: "system"}
	if err := t.content(r); err != nil {
		return err
	}
	var texts []string
	for _, p := range t.parts {
		texts = append(texts, p.text)
	}
	if said := strings.Join(texts, "\n\n"); said != "" {
		t.parts = []part{{text: said}}
		b.system = &t.messages()[0]
	}
	return nil
}

// part is a text, or an image.
type part struct {
	text  string
	image *generate.Image
}

// result is what a tool said.
type result struct {
	id, text string
	images   []part
}

// turnReader is a turn while it is read.
type turnReader struct {
	body     *body
	at, role string

	before   []generate.Message // of an assistant's turn, behind which results of tools stand
	parts    []part
	results  []result
	thoughts strings.Builder
	calls    []byte // the elements of a JSON array
	called   int
}

// content reads a text, or blocks.
func (t *turnReader) content(r *wire.Reader) error {
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		t.parts = append(t.parts, part{text: s})
		return err
	}, func(r *wire.Reader) error {
		t.parts = nil
		return r.Array(func(j int) error { return t.block(r, fmt.Sprintf("%s.content[%d]", t.at, j)) })
	})
}

// block is a block of any type while it is read.
type block struct {
	at                                                       string
	kind, text, id, name, toolUse, thinking, signature, data string
	input                                                    []byte
	image                                                    *generate.Image
	content                                                  []part
	failed                                                   bool
}

// read reads the members that blocks have.
func (b *block) read(r *wire.Reader) error {
	return r.Object("struct ContentBlock", []wire.Field{
		{Name: "type", Required: true, Read: wire.Into(&b.kind, (*wire.Reader).String)},
		{Name: "text", Read: fields.Text(&b.text)},
		{Name: "id", Read: fields.Text(&b.id)},
		{Name: "name", Read: fields.Text(&b.name)},
		{Name: "input", Read: wire.Into(&b.input, (*wire.Reader).RawObject)},
		{Name: "tool_use_id", Read: fields.Text(&b.toolUse)},
		{Name: "content", Read: b.readContent},
		{Name: "is_error", Read: fields.Flag(&b.failed)},
		{Name: "server_name", Read: fields.Text(new(string))},
		{Name: "thinking", Read: fields.Text(&b.thinking)},
		{Name: "signature", Read: fields.Text(&b.signature)},
		{Name: "data", Read: fields.Text(&b.data)},
		{Name: "source", Read: b.source},
		{Name: "cache_control", Read: cacheControl},
	})
}

// readContent reads what a tool said: a text, or blocks of text and images.
func (b *block) readContent(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		b.content = []part{{text: s}}
		return err
	}, func(r *wire.Reader) error {
		b.content = nil
		return r.Array(func(k int) error {
			inner := &block{at: fmt.Sprintf("%s.content[%d]", b.at, k)}
			if err := inner.read(r); err != nil {
				return err
			}
			p, err := inner.part()
			b.content = append(b.content, p)
			return err
		})
	})
}

// source reads where an image is, or the text of a document.
func (b *block) source(r *wire.Reader) error {
	kind, media, data, url := "", "", "", ""
	err := r.Object("struct Source", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(&kind, "base64", "url", "text", "file", "content")},
		{Name: "media_type", Read: fields.Text(&media)},
		{Name: "data", Read: fields.Text(&data)},
		{Name: "url", Read: fields.Text(&url)},
	})
	switch {
	case err != nil:
		return err
	case kind == "base64" && (media == "" || data == ""):
		return r.Refuse("missing field `media_type` or `data`")
	case kind == "url" && url == "":
		return r.Refuse("missing field `url`")
	case kind == "base64":
		url = "data:" + media + ";base64," + data
	case kind == "text":
		b.text = data
		return nil
	case kind != "url":
		return &generate.Invalid{Field: "messages", Msg: fmt.Sprintf("`%s`: sources of type `%s` are not supported, "+
			"these are: base64, url; text for documents", b.at, kind)}
	}
	b.image = &generate.Image{URL: url, Place: b.at}
	return nil
}

// part returns a block that is a text or an image.
func (b *block) part() (part, error) {
	switch {
	case b.kind == "text":
		return part{text: b.text}, nil
	case b.kind == "image" && b.image != nil:
		return part{image: b.image}, nil
	case b.kind == "document" && b.image == nil:
		return part{text: b.text}, nil
	}
	return part{}, b.unsupported("text, image, document with a source of type text")
}

func (b *block) unsupported(these string) error {
	return &generate.Invalid{Field: "messages",
		Msg: fmt.Sprintf("`%s`: blocks of type `%.32s` are not supported here, "+
			"these are: %s", b.at, b.kind, these)}
}

// block reads one block.
func (t *turnReader) block(r *wire.Reader, at string) error {
	b := &block{at: at, input: []byte("{}")}
	if err := b.read(r); err != nil {
		return err
	}
	if b.kind != "mcp_tool_result" {
		t.flush()
	}
	switch {
	case t.role == "assistant" && b.kind == "mcp_tool_result":
		return t.mcpResult(r, b)
	case t.role == "assistant" && b.kind == "mcp_tool_use":
		return t.call(r, b)
	case t.role == "user" && b.kind == "tool_result":
		return t.result(r, b)
	case t.role == "assistant" && b.kind == "tool_use":
		return t.call(r, b)
	case t.role == "assistant" && b.kind == "thinking":
		t.thoughts.WriteString(b.thinking)
		return nil
	case t.role == "assistant" && b.kind == "redacted_thinking":
		return nil // another server's: nobody here can read it
	case t.role != "user" && b.kind != "text":
		return b.unsupported(map[string]string{"system": "text",
			"assistant": "text, tool_use, thinking, redacted_thinking, mcp_tool_use, mcp_tool_result"}[t.role])
	}
	p, err := b.part()
	t.parts = append(t.parts, p)
	return err
}

// call takes an assistant's call of a tool.
func (t *turnReader) call(r *wire.Reader, b *block) error {
	if b.id == "" || b.name == "" {
		return r.Refuse("missing field `id` or `name`")
	}
	t.body.called[b.id] = b.name
	out := wire.AppendString(append(wire.Comma(t.calls, t.called), `{"id":`...), b.id)
	out = wire.AppendString(append(out, `,"type":"function","function":{"name":`...), b.name)
	t.calls = append(append(append(out, `,"arguments":`...), b.input...), `}}`...)
	t.called++
	return nil
}

// result takes what a tool said. Templates know no images of tools: theirs follow as the user's.
func (t *turnReader) result(r *wire.Reader, b *block) error {
	if b.toolUse == "" {
		return r.Refuse("missing field `tool_use_id`")
	}
	out := result{id: b.toolUse}
	var texts []string
	for _, p := range b.content {
		if p.image != nil {
			out.images = append(out.images, p)
		} else {
			texts = append(texts, p.text)
		}
	}
	out.text = strings.Join(texts, "\n")
	if b.failed && !strings.HasPrefix(strings.ToLower(out.text), "error") {
		out.text = "Error: " + out.text
	}
	t.results = append(t.results, out)
	return nil
}

// messages returns the turn as templates read it: the results of tools, each a message, before what else is said.
func (t *turnReader) messages() []generate.Message {
	var list []generate.Message
	var images []part
	for _, one := range t.results {
		b := wire.AppendString([]byte(`{"role":"tool","tool_call_id":`), one.id)
		if name := t.body.called[one.id]; name != "" {
			b = wire.AppendString(append(b, `,"name":`...), name)
		}
		b = append(wire.AppendString(append(b, `,"content":`...), one.text), '}')
		list = append(list, generate.Message{Role: "tool", HasText: strings.TrimSpace(one.text) != "", JSON: b})
		images = append(images, one.images...)
	}
	parts := append(images, t.parts...)
	if len(parts) == 0 && len(list) > 0 {
		return list
	}
	m := generate.Message{Role: t.role, Calls: t.called > 0}
	b := wire.AppendString([]byte(`{"role":`), t.role)
	if b = append(b, `,"content":`...); len(parts) == 0 && t.called > 0 {
		b = append(b, "null"...)
	} else {
		b = m.AppendContent(b, content(parts, t.role == "assistant"))
	}
	if t.thoughts.Len() > 0 {
		b = wire.AppendString(append(b, `,"reasoning_content":`...), t.thoughts.String())
	}
	if t.called > 0 {
		b = append(append(append(b, `,"tool_calls":[`...), t.calls...), ']')
	}
	m.JSON = append(b, '}')
	return append(list, m)
}

// content returns parts as generate has them. What an assistant said is one text: blocks of it follow one another.
func content(parts []part, joined bool) (out []generate.Part) {
	for _, p := range parts {
		if n := len(out); joined && n > 0 {
			out[n-1].Text += p.text
			continue
		}
		out = append(out, generate.Part{Text: p.text, Image: p.image})
	}
	return out
}
