// Package chat reads the parts of requests of the kinds template and tools:
// messages with their content parts and calls, tools, and the description of
// the model. The field Raw has the JSON of the whole object, for members that a
// plugin knows and this package does not.
//
// Byte slices are parts of the JSON that was read; strings are copies.
package chat

import "tgi/sdk/go/params"

// Message is one turn of the conversation.
type Message struct {
	// Role is "system", "user", "assistant", "tool" or another role that the client wrote.
	Role string
	// Content is the text. If the content is a list, it is the concatenated text
	// of its parts. It is empty if there is none.
	Content string
	// Parts is nil if the content is a string or absent.
	Parts []Part
	// Reasoning is "reasoning_content": what the model thought in this turn.
	Reasoning string
	// ToolCalls are the calls in an assistant's turn.
	ToolCalls []ToolCall
	// ToolCallID is the id of the call whose result a tool's turn has.
	ToolCallID string
	// Name is the speaker's name, or empty.
	Name string
	// Raw is the message's JSON object.
	Raw []byte
}

// Part is one of several parts of a message's content.
type Part struct {
	// Type is "text", "image_url" or another type.
	Type string
	// Text is the text of a part of type "text".
	Text string
	// Raw is the part's JSON.
	Raw []byte
}

// ToolCall is a call that the model made in an earlier turn.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON object, or a JSON string if the model wrote something
	// else.
	Arguments []byte
	// Raw is the call's JSON object.
	Raw []byte
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	// Parameters is a JSON schema, or nil.
	Parameters []byte
	// Strict is true if the client requires arguments that match the schema.
	Strict bool
	// Raw is the tool's JSON object.
	Raw []byte
}

// ReadMessages reads an array of messages. r keeps an error.
func ReadMessages(r *params.Reader) (all []Message) {
	for range r.Array() {
		all = append(all, readMessage(r.Raw(), r))
	}
	return all
}

func readMessage(raw []byte, outer *params.Reader) Message {
	m, r := Message{Raw: raw}, params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "role":
			m.Role = text(r)
		case "content":
			m.content(r)
		case "reasoning_content":
			m.Reasoning = text(r)
		case "tool_calls":
			if r.Null() {
				continue
			}
			for range r.Array() {
				m.ToolCalls = append(m.ToolCalls, readCall(r))
			}
		case "tool_call_id":
			m.ToolCallID = text(r)
		case "name":
			m.Name = text(r)
		default:
			r.Skip()
		}
	}
	pass(r, outer)
	return m
}

// content reads a string, null, or a list of parts.
func (m *Message) content(r *params.Reader) {
	if r.Peek() != '[' {
		m.Content = text(r)
		return
	}
	m.Parts = []Part{}
	for range r.Array() {
		p := Part{Raw: r.Raw()}
		in := params.Read(p.Raw)
		if in.Peek() == '"' { // a string is a part of type text
			p.Type, p.Text = "text", in.String()
		} else {
			for key := range in.Object() {
				switch key {
				case "type":
					p.Type = text(in)
				case "text":
					p.Text = text(in)
				default:
					in.Skip()
				}
			}
		}
		pass(in, r)
		m.Parts = append(m.Parts, p)
		m.Content += p.Text
	}
}

// ReadTools reads an array of tools. r keeps an error.
func ReadTools(r *params.Reader) (all []Tool) {
	for range r.Array() {
		t := Tool{Raw: r.Raw()}
		in := params.Read(t.Raw)
		t.read(in)
		pass(in, r)
		all = append(all, t)
	}
	return all
}

// read reads {"type": "function", "function": {...}}, or the inner object without the outer one.
func (t *Tool) read(r *params.Reader) {
	for key := range r.Object() {
		switch key {
		case "function":
			t.read(r)
		case "name":
			t.Name = text(r)
		case "description":
			t.Description = text(r)
		case "parameters":
			t.Parameters = r.Raw()
		case "strict":
			if !r.Null() {
				t.Strict = r.Bool()
			}
		default:
			r.Skip()
		}
	}
}

func readCall(r *params.Reader) ToolCall {
	c := ToolCall{Raw: r.Raw()}
	in := params.Read(c.Raw)
	c.read(in)
	pass(in, r)
	return c
}

func (c *ToolCall) read(r *params.Reader) {
	for key := range r.Object() {
		switch key {
		case "function":
			c.read(r)
		case "id":
			c.ID = text(r)
		case "name":
			c.Name = text(r)
		case "arguments":
			c.Arguments = r.Raw()
		default:
			r.Skip()
		}
	}
}

// text reads a string. null is the empty string.
func text(r *params.Reader) string {
	if r.Null() {
		return ""
	}
	return r.String()
}

// pass records the error of the inner reader in the outer one.
func pass(inner, outer *params.Reader) {
	if err := inner.Close(); err != nil {
		outer.Fail(err.Error())
	}
}
