package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// messageReader is a message while it is read.
type messageReader struct {
	role        string
	hasText     bool // more than white space
	nullContent bool
	hasContent  bool // content is there, and no null
	refused     bool // a part of it is a refusal
	calls       int
	rewrite     bool // a call's arguments are not as templates read them
	reasons     bool // reasoning is there, under its newer name
	older       bool // the call is that of OpenAI's older API
	images      []generate.Image
	id          string
}

// messages reads the conversation.
func (b *chatBody) messages(r *wire.Reader) error {
	return r.Array(func(i int) error {
		m, err := message(r, i, fmt.Sprintf("call%05d", b.olderCalls%100_000))
		if m.Role == "tool" { // the next call is another
			b.olderCalls++
		}
		b.conversation.Messages = append(b.conversation.Messages, m)
		return err
	})
}

// otherMessages reads a second conversation.
func otherMessages(r *wire.Reader) (list []generate.Message, err error) {
	err = r.Array(func(i int) error {
		m, err := message(r, i, fmt.Sprintf("call%05d", i))
		list = append(list, m)
		return err
	})
	return list, err
}

// message reads one. Members that are not known here are the template's.
func message(r *wire.Reader, i int, id string) (generate.Message, error) {
	start := *r
	t := &messageReader{id: id}
	err := r.Object("struct Message", []wire.Field{
		{Name: "role", Required: true, Read: wire.Into(&t.role, (*wire.Reader).String)},
		{Name: "content", Read: func(r *wire.Reader) error { return t.content(r, i) }},
		{Name: "name", Read: text},
		{Name: "tool_calls", Read: t.toolCalls},
		{Name: "tool_call_id", Read: text},
		{Name: "function_call", Read: t.functionCall},
		{Name: "reasoning", Read: t.reasoning},
	})
	if err != nil {
		return generate.Message{}, err
	}
	if t.older && t.calls > 1 {
		return generate.Message{}, r.Refuse("`function_call` and `tool_calls` are both given, expected one of them")
	}
	if t.nullContent && t.calls == 0 && t.role != "assistant" {
		return generate.Message{}, r.Refuse(fmt.Sprintf("`content` must not be null in a message of role `%.32s`",
			t.role))
	}
	if !t.hasContent && t.calls == 0 {
		return generate.Message{}, r.Refuse("missing field `content`")
	}
	raw := r.Since(start)
	m := generate.Message{Role: t.role, HasText: t.hasText, Calls: t.calls > 0, JSON: t.forTemplate(raw),
		Images: t.images}
	if t.role == "function" {
		m.Role = "tool"
	}
	return m, nil
}

// text reads a string or null.
func text(r *wire.Reader) error {
	var s *string
	return wire.Optional(&s, (*wire.Reader).String)(r)
}

// reasoning notes text; what else clients put there is the template's.
func (t *messageReader) reasoning(r *wire.Reader) error {
	probe := *r
	_, err := probe.String()
	t.reasons = err == nil
	return r.Skip()
}

// content reads text, parts of text or null.
func (t *messageReader) content(r *wire.Reader, i int) error {
	if none, err := r.Null(); none || err != nil {
		t.nullContent = none
		return err
	}
	t.hasContent = true
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		t.add(s)
		return err
	}, func(r *wire.Reader) error {
		return r.Array(func(j int) error { return t.part(r, i, j) })
	})
}

// part reads one part of a message's content.
func (t *messageReader) part(r *wire.Reader, i, j int) error {
	kind := ""
	var text, refusal, url *string
	err := r.Object("struct MessageChunk", []wire.Field{
		{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
		{Name: "text", Read: wire.Optional(&text, (*wire.Reader).String)},
		{Name: "refusal", Read: wire.Optional(&refusal, (*wire.Reader).String)},
		{Name: "image_url", Read: func(r *wire.Reader) error { return imageURL(r, &url) }},
	})
	if kind == "refusal" { // what an assistant said instead of text
		text, t.refused = refusal, true
	}
	switch {
	case err != nil:
		return err
	case kind == "image_url" && url == nil:
		return r.Refuse("missing field `image_url`")
	case kind == "image_url":
		t.images = append(t.images, generate.Image{URL: *url, Place: fmt.Sprintf("messages[%d].content[%d]", i, j)})
		return nil
	case kind != "text" && kind != "refusal":
		return &generate.Invalid{
			Msg: fmt.Sprintf("`messages[%d].content[%d]`: parts of type `%.32s` are not supported, these are: text, "+
				"image_url, refusal", i, j, kind),
			Field: "messages",
		}
	case text == nil:
		return r.Refuse("missing field `" + kind + "`")
	}
	t.add(*text)
	return nil
}

// imageURL reads where a picture is: an object with a url, that text itself, or null.
func imageURL(r *wire.Reader, to **string) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	url := ""
	*to = &url
	return fields.Either(r, wire.Into(&url, (*wire.Reader).String), func(r *wire.Reader) error {
		return r.Object("struct Url", []wire.Field{{Name: "url", Required: true, Read: wire.Into(&url,
			(*wire.Reader).String)}})
	})
}

// add takes a part of what is said.
func (t *messageReader) add(text string) { t.hasText = t.hasText || strings.TrimSpace(text) != "" }

// toolCalls reads the calls of an assistant's message, or null.
func (t *messageReader) toolCalls(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		t.calls++
		called := false
		err := r.Object("struct ToolCall", []wire.Field{
			{Name: "id", Read: text},
			{Name: "function", Read: func(r *wire.Reader) error {
				called = true
				return t.function(r)
			}},
			{Name: "custom", Read: func(r *wire.Reader) error {
				if none, err := r.Null(); none || err != nil {
					return err
				}
				called, t.rewrite = true, true
				name, input := "", ""
				return r.Object("struct CustomCall", []wire.Field{
					{Name: "name", Required: true, Read: wire.Into(&name, (*wire.Reader).String)},
					{Name: "input", Required: true, Read: wire.Into(&input, (*wire.Reader).String)},
				})
			}},
		})
		if err == nil && !called {
			return r.Refuse("missing field `function`")
		}
		return err
	})
}

// functionCall reads the call of OpenAI's older API, or null.
func (t *messageReader) functionCall(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	t.older, t.rewrite = true, true
	t.calls++
	return t.function(r)
}

// function reads the name and the arguments of a call.
func (t *messageReader) function(r *wire.Reader) error {
	name, given := "", false
	arguments := func(r *wire.Reader) error { return t.arguments(r, &given) }
	err := r.Object("struct FunctionCall", []wire.Field{
		{Name: "name", Required: true, Read: wire.Into(&name, (*wire.Reader).String)},
		{Name: "arguments", Read: arguments},
		{Name: "parameters", Read: func(r *wire.Reader) error {
			t.rewrite = true
			return arguments(r)
		}},
	})
	t.rewrite = t.rewrite || !given
	return err
}

// arguments reads an object, its text as OpenAI has it, or null.
func (t *messageReader) arguments(r *wire.Reader, given *bool) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	*given = true
	return fields.Either(r, func(r *wire.Reader) error {
		_, err := r.String()
		t.rewrite = t.rewrite || err == nil
		return err
	}, func(r *wire.Reader) error {
		_, err := r.RawObject()
		return err
	})
}

// forTemplate returns the message as template plugins read it: parts that are refusals become parts of text, and images
// ones without their URL, as templates of transformers know them; arguments of calls that are the text of an object
// become one, with the text beside it, and an empty object where there are none; reasoning is also there under its
// older name. Whether the template gets parts or one text is the template plugin's to decide, which knows the template.
func (t *messageReader) forTemplate(raw []byte) []byte {
	result := t.role == "function"
	if !t.refused && len(t.images) == 0 && !t.rewrite && !t.reasons && !result {
		return raw
	}
	list := wire.Members(raw)
	if t.older {
		list = newerCall(list, t.id)
	}
	if result {
		list = wire.SetMember(list, "role", json.RawMessage(`"tool"`))
		list = wire.SetMember(list, "tool_call_id", wire.AppendString(nil, t.id))
	}
	if m := wire.Find(list, "content"); (t.refused || len(t.images) > 0) && m != nil {
		m.Value = normalParts(m.Value)
	}
	if m := wire.Find(list, "tool_calls"); t.rewrite && m != nil {
		calls := wire.Elements(m.Value)
		b := []byte{'['}
		for i, c := range calls {
			call := wire.Members(c)
			if c := wire.Find(call, "custom"); c != nil && !wire.IsNull(c.Value) {
				call = functionOf(call, c)
			}
			if f := wire.Find(call, "function"); f != nil {
				f.Value = normalFunction(f.Value)
			}
			b = wire.AppendMembers(wire.Comma(b, i), call)
		}
		m.Value = append(b, ']')
	}
	if m := wire.Find(list, "reasoning"); t.reasons && m != nil && wire.Find(list, "reasoning_content") == nil {
		list = append(list, wire.Member{Name: "reasoning_content", Value: m.Value})
	}
	return wire.AppendMembers(nil, list)
}

// normalParts makes parts of text of those that are refusals, and takes the URLs from those that are images.
func normalParts(raw json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, part := range wire.Elements(raw) {
		b = wire.Comma(b, i)
		list := wire.Members(part)
		kind, said := wire.Find(list, "type"), wire.Find(list, "refusal")
		if kind != nil && said != nil && string(kind.Value) == `"refusal"` {
			part = wire.AppendMembers(nil, []wire.Member{
				{Name: "type", Value: json.RawMessage(`"text"`)}, {Name: "text", Value: said.Value}})
		}
		if kind != nil && wire.Unquoted(kind.Value) == "image_url" {
			part = json.RawMessage(`{"type":"image"}`)
		}
		b = append(b, part...)
	}
	return append(b, ']')
}

// normalFunction makes the arguments of a call an object where they are the text
// of one, under the name that OpenAI has for them. The client's text stays beside
// it, byte for byte: many templates print it.
func normalFunction(raw json.RawMessage) json.RawMessage {
	list := wire.Renamed(wire.Members(raw), "parameters", "arguments")
	a := wire.Find(list, "arguments")
	if a == nil {
		list = append(list, wire.Member{Name: "arguments", Value: json.RawMessage("null")})
		a = &list[len(list)-1]
	}
	if wire.IsText(a.Value) {
		var s string
		if err := json.Unmarshal(a.Value, &s); err == nil {
			written := a.Value
			if a.Value = object(s, written); s != "" && !wire.IsText(a.Value) {
				list = wire.SetMember(list, "arguments_text", written)
				a = wire.Find(list, "arguments")
			}
		}
	}
	if wire.IsNull(a.Value) {
		a.Value = json.RawMessage("{}")
	}
	return wire.AppendMembers(nil, list)
}

// object returns s where it is the text of an object, one without members where
// it is empty, and otherwise what it was.
func object(s string, otherwise json.RawMessage) json.RawMessage {
	if s == "" {
		return json.RawMessage("{}")
	}
	var raw []byte
	err := wire.Decode([]byte(s), func(r *wire.Reader) (err error) {
		raw, err = r.RawObject()
		return err
	})
	if err != nil {
		return otherwise
	}
	return raw
}
