package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Message is one message of a conversation in OpenAI's format. Those that were
// read from a file keep every member that they had.
type Message struct {
	// Role is the raw message's.
	Role string
	// Raw is the JSON object. It is never changed.
	Raw json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (m Message) MarshalJSON() ([]byte, error) { return m.Raw, nil }

// Call is a function that the model wants called.
type Call struct {
	// ID names the call in the message with its result.
	ID string
	// Name of the function, and its arguments: a JSON object, unless the model
	// made something else.
	Name, Arguments string
}

// roles are those that messages may have.
var roles = []string{"system", "developer", "user", "assistant", "tool"}

// textMessage returns a message of the role whose content is text.
func textMessage(role, text string) Message {
	return pack(role, struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{role, text})
}

// resultMessage returns what a call came to.
func resultMessage(c Call, text string) Message {
	const role = "tool"
	return pack(role, struct {
		Role    string `json:"role"`
		ID      string `json:"tool_call_id"`
		Content string `json:"content"`
	}{role, c.ID, text})
}

// callMessage is the assistant's message with calls; an empty text is null, as
// OpenAI has it.
func callMessage(text string, calls []Call) Message {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	const role = "assistant"
	m := struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
		Calls   []call  `json:"tool_calls"`
	}{Role: role}
	if text != "" {
		m.Content = &text
	}
	for _, c := range calls {
		m.Calls = append(m.Calls, call{c.ID, "function", function{c.Name, c.Arguments}})
	}
	return pack(role, m)
}

// pack encodes a message. Signs that matter to HTML alone stay as they are: the
// texts are saved for people.
func pack(role string, m any) Message {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic("BUG: a message that cannot be encoded: " + err.Error())
	}
	return Message{role, bytes.TrimSpace(b.Bytes())}
}

// text returns the content when that is a text.
func (m Message) text() (string, bool) {
	var c struct{ Content *string }
	if json.Unmarshal(m.Raw, &c) != nil || c.Content == nil {
		return "", false
	}
	return *c.Content, true
}

// readMessages returns the messages of a file: a list of them, or a request
// with the member messages.
func readMessages(data []byte) ([]Message, error) {
	raws, err := listOf(data, "messages")
	if err != nil {
		return nil, err
	}
	list := make([]Message, len(raws))
	for i, raw := range raws {
		var m struct{ Role string }
		if json.Unmarshal(raw, &m) != nil {
			return nil, fmt.Errorf("messages[%d] is no object with a role", i)
		}
		if !slices.Contains(roles, m.Role) {
			return nil, fmt.Errorf("messages[%d].role is %q, not one of %v", i, m.Role, roles)
		}
		list[i] = Message{m.Role, raw}
	}
	return list, nil
}

// writeMessages is the text that readMessages reads, a message a line.
func writeMessages(list []Message) []byte {
	b := []byte("[")
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n  "...)
		var line bytes.Buffer
		if err := json.Compact(&line, m.Raw); err != nil {
			panic("BUG: a message that is not JSON: " + err.Error())
		}
		b = append(b, line.Bytes()...)
	}
	return append(b, "\n]\n"...)
}

// tools are the functions that the model may call.
type tools struct {
	raw   json.RawMessage // OpenAI's list
	names []string
}

// readTools returns the tools of a file: a list of them, or a request with the
// member tools.
func readTools(data []byte) (tools, error) {
	raws, err := listOf(data, "tools")
	if err != nil {
		return tools{}, err
	}
	if len(raws) == 0 {
		return tools{}, errors.New("the list of tools is empty")
	}
	var t tools
	for i, raw := range raws {
		var one struct {
			Type     string
			Function struct{ Name string }
		}
		if json.Unmarshal(raw, &one) != nil || one.Type != "function" || one.Function.Name == "" {
			return tools{}, fmt.Errorf(`tools[%d] must be {"type": "function", "function": {"name": ...}}`, i)
		}
		t.names = append(t.names, one.Function.Name)
	}
	t.raw, err = json.Marshal(raws)
	return t, err
}

// listOf returns the elements of a JSON list, which may be the member of that
// name of an object.
func listOf(data []byte, member string) ([]json.RawMessage, error) {
	var list []json.RawMessage
	errList := json.Unmarshal(data, &list)
	if errList == nil && list != nil {
		return list, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) == nil {
		if json.Unmarshal(object[member], &list) == nil && list != nil {
			return list, nil
		}
		return nil, fmt.Errorf("it has no list %q", member)
	}
	var syntax *json.SyntaxError
	if errors.As(errList, &syntax) {
		return nil, fmt.Errorf("it is not JSON: %w at byte %d", errList, syntax.Offset)
	}
	return nil, fmt.Errorf("it is neither a list of %s nor an object with one", member)
}
