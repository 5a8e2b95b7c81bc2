package responses

import (
	"encoding/base64"
	"fmt"
	"strings"

	"tgi/server/api/toolset"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// item is one of a conversation: as the API shows it, and as the model reads it.
type item struct {
	kind, id string
	// json is the item as the API shows it.
	json []byte
	// role and parts are a message's, parts also what a tool said.
	role  string
	parts []generate.Part
	// call is the id of a call, name the tool's, text its arguments or input, or what was thought.
	call, name, text string
	label            string // of an MCP server
	// content are the parts as the API shows them; said is what a tool said, if it is one text.
	content []byte
	said    *string
}

// The kinds of items that are read.
const (
	kindMessage      = "message"
	kindCall         = "function_call"
	kindOutput       = "function_call_output"
	kindCustomCall   = "custom_tool_call"
	kindCustomOutput = "custom_tool_call_output"
	kindReasoning    = "reasoning"
	kindReference    = "item_reference"
	// What MCP servers did: calls are what tools said, too; lists are for clients alone.
	kindMCPCall = "mcp_call"
	kindMCPList = "mcp_list_tools"
)

const kinds = "message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning, " +
	"item_reference, mcp_call, mcp_list_tools"

// output reports whether the item is what a tool said.
func (i *item) output() bool { return i.kind == kindOutput || i.kind == kindCustomOutput }

// calls reports whether the item is a call of a tool.
func (i *item) calls() bool { return i.kind == kindCall || i.kind == kindCustomCall }

// itemReader is an item while it is read.
type itemReader struct {
	item
	at      string
	sealed  *string // encrypted_content
	thought strings.Builder
}

// readItem reads one item; at is where it stands, for messages.
func readItem(r *wire.Reader, at string) (item, error) {
	t := &itemReader{at: at}
	probe := *r
	err := probe.Object("struct Item", []wire.Field{
		{Name: "type", Read: fields.Text(&t.kind)}, {Name: "role", Read: fields.Text(&t.role)},
		{Name: "id", Read: fields.Text(&t.id)},
	})
	if err != nil {
		return item{}, err
	}
	switch {
	case t.kind == "" && t.role == "" && t.id != "":
		t.kind = kindReference
	case t.kind == "":
		t.kind = kindMessage
	}
	list, ok := t.fields()[t.kind]
	if !ok {
		return item{}, &generate.Invalid{Field: "input",
			Msg: fmt.Sprintf("`%s`: items of type `%.48s` are not supported, "+
				"these are: %s", at, t.kind, kinds)}
	}
	if err := r.Object("struct Item", list); err != nil {
		return item{}, err
	}
	if err := t.check(r); err != nil {
		return item{}, err
	}
	return t.item, nil
}

// fields are the members of each kind of item.
func (t *itemReader) fields() map[string][]wire.Field {
	text := func(name string, dst *string) wire.Field {
		return wire.Field{Name: name, Required: true, Read: wire.Into(dst, (*wire.Reader).String)}
	}
	return map[string][]wire.Field{
		kindMessage: {{Name: "role", Required: true, Read: fields.Given(&t.role, "user", "assistant", "system",
			"developer")},
			{Name: "content", Required: true, Read: t.readContent}},
		kindCall:         {text("call_id", &t.call), text("name", &t.name), text("arguments", &t.text)},
		kindCustomCall:   {text("call_id", &t.call), text("name", &t.name), text("input", &t.text)},
		kindOutput:       {text("call_id", &t.call), {Name: "output", Required: true, Read: t.readOutput}},
		kindCustomOutput: {text("call_id", &t.call), {Name: "output", Required: true, Read: t.readOutput}},
		kindReasoning: {{Name: "content", Read: t.readThoughts},
			{Name: "encrypted_content", Read: wire.Optional(&t.sealed, (*wire.Reader).String)}},
		kindReference: {text("id", &t.id)},
		kindMCPCall: {text("name", &t.name), text("arguments", &t.text), text("server_label", &t.label),
			{Name: "output", Read: wire.Optional(&t.said, (*wire.Reader).String)}},
		kindMCPList: {text("server_label", &t.label)},
	}
}

// check brings together what the members say. The text of a call of a function is JSON for every template.
func (t *itemReader) check(r *wire.Reader) error {
	switch t.kind {
	case kindCall, kindMCPCall:
		if t.kind == kindMCPCall {
			if t.call, t.parts = t.id, []generate.Part{{}}; t.said != nil {
				t.parts[0].Text = *t.said
			}
		}
		err := wire.Decode([]byte(t.text), func(r *wire.Reader) error {
			_, err := r.RawObject()
			return err
		})
		if err != nil && strings.TrimSpace(t.text) != "" {
			return r.Refuse("`arguments` must be a JSON object")
		}
	case kindReasoning:
		if t.text = t.thought.String(); t.text == "" && t.sealed != nil {
			t.text = unseal(*t.sealed)
		}
	}
	return nil
}

// sealPrefix begins what seal returns.
const sealPrefix = "tgi1."

// seal returns reasoning as its encrypted_content: what clients send again that keep nothing else of it. It is no
// secret,
// as it stands in the item's content too.
func seal(thoughts string) string {
	return sealPrefix + base64.RawURLEncoding.EncodeToString([]byte(thoughts))
}

// unseal returns the reasoning of an encrypted_content, and nothing of another server's.
func unseal(s string) string {
	rest, ok := strings.CutPrefix(s, sealPrefix)
	if !ok {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// readContent reads what a message says: a text, or parts.
func (t *itemReader) readContent(r *wire.Reader) error {
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		t.parts, t.content = nil, nil
		t.say(s)
		return err
	}, func(r *wire.Reader) error {
		t.parts, t.content = nil, nil
		return r.Array(func(j int) error { return t.part(r, fmt.Sprintf("%s.content[%d]", t.at, j)) })
	})
}

// readOutput reads what a tool said: a text, or parts.
func (t *itemReader) readOutput(r *wire.Reader) error {
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		t.parts, t.said = []generate.Part{{Text: s}}, &s
		return err
	}, func(r *wire.Reader) error {
		t.parts, t.content, t.said, t.role = nil, nil, nil, "user"
		return r.Array(func(j int) error { return t.part(r, fmt.Sprintf("%s.output[%d]", t.at, j)) })
	})
}

// say adds a part that is a text.
func (t *itemReader) say(s string) {
	t.parts = append(t.parts, generate.Part{Text: s})
	b := wire.Comma(t.content, len(t.parts)-1)
	if t.role == "assistant" {
		t.content = append(wire.AppendString(append(b,
			`{"type":"output_text","annotations":[],"logprobs":[],"text":`...),
			s), '}')
		return
	}
	t.content = append(wire.AppendString(append(b, `{"type":"input_text","text":`...), s), '}')
}

// part reads a part of what is said.
func (t *itemReader) part(r *wire.Reader, at string) error {
	kind, text, refusal, url, detail := "", "", "", "", "auto"
	err := r.Object("struct Content", []wire.Field{
		{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
		{Name: "text", Read: fields.Text(&text)},
		{Name: "refusal", Read: fields.Text(&refusal)},
		{Name: "image_url", Read: fields.Text(&url)},
		{Name: "detail", Read: fields.Word(&detail, "auto", "low", "high", "original")},
	})
	switch {
	case err != nil:
		return err
	case kind == "input_text", kind == "output_text", kind == "text":
		t.say(text)
	case kind == "refusal":
		t.say(refusal)
	case kind == "input_image" && url == "":
		return &generate.Invalid{Field: "input", Msg: "`" + at +
			"`: images need an `image_url`: files are not supported"}
	case kind == "input_image" && t.role != "assistant":
		t.parts = append(t.parts, generate.Part{Image: &generate.Image{URL: url, Place: at}})
		b := append(wire.Comma(t.content, len(t.parts)-1), `{"type":"input_image","detail":`...)
		t.content = append(wire.AppendString(append(wire.AppendString(b, detail), `,"image_url":`...), url), '}')
	default:
		return &generate.Invalid{Field: "input",
			Msg: fmt.Sprintf("`%s`: parts of type `%.32s` are not supported here, "+
				"these are: input_text, input_image, output_text, refusal", at, kind)}
	}
	return nil
}

// readThoughts reads the content of reasoning, or null.
func (t *itemReader) readThoughts(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		text := ""
		err := r.Object("struct Reasoning", []wire.Field{{Name: "text", Read: fields.Text(&text)}})
		t.thought.WriteString(text)
		return err
	})
}

// show makes the item what the API shows of it, with an id unless it has one. It is called once, for an item that a
// client sent.
func (t *item) show(id string) {
	if t.id == "" {
		t.id = id
	}
	b := wire.AppendString([]byte(`{"id":`), t.id)
	b = wire.AppendString(append(b, `,"type":`...), t.kind)
	switch t.kind {
	case kindMessage:
		b = wire.AppendString(append(b, `,"status":"completed","role":`...), t.role)
		b = append(append(append(b, `,"content":[`...), t.content...), ']')
	case kindCall:
		b = t.appendCall(append(b, `,"status":"completed"`...), "arguments")
	case kindCustomCall:
		b = t.appendCall(append(b, `,"status":"completed"`...), "input")
	case kindOutput, kindCustomOutput:
		b = wire.AppendString(append(b, `,"status":"completed","call_id":`...), t.call)
		if b = append(b, `,"output":`...); t.said != nil {
			b = wire.AppendString(b, *t.said)
		} else {
			b = append(append(append(b, '['), t.content...), ']')
		}
	case kindReasoning:
		b = appendReasoning(b, t.text)
	case kindMCPCall:
		s := spoken{name: t.name, label: t.label, output: t.parts[0].Text, done: true}
		s.text.WriteString(t.text)
		b = s.appendMCPCall(append(b, `,"status":"completed"`...))
	case kindMCPList:
		b = (&spoken{label: t.label}).appendMCPList(b)
	}
	t.json, t.content, t.said = append(b, '}'), nil, nil
}

// appendCall writes the members of a call; member holds its text.
func (t *item) appendCall(b []byte, member string) []byte {
	b = wire.AppendString(append(b, `,"call_id":`...), t.call)
	b = wire.AppendString(append(b, `,"name":`...), t.name)
	return wire.AppendString(append(append(append(b, `,"`...), member...), `":`...), t.text)
}

// appendFunction writes a call as templates read it: the arguments are an object, and the client's own text beside it
// where there
// is one.
func (i *item) appendFunction(b []byte) []byte {
	b = wire.AppendString(append(b, `{"name":`...), i.name)
	switch {
	case i.kind == kindCustomCall:
		b = toolset.AppendArguments(append(b, `,"arguments":`...), wire.AppendString(nil, i.text))
	case strings.TrimSpace(i.text) == "":
		b = append(b, `,"arguments":{}`...)
	default:
		b = append(append(b, `,"arguments":`...), i.text...)
		b = wire.AppendString(append(b, `,"arguments_text":`...), i.text)
	}
	return append(b, '}')
}

// appendReasoning writes the members of reasoning that say it.
func appendReasoning(b []byte, text string) []byte {
	if b = append(b, `,"summary":[],"content":[`...); text != "" {
		b = append(wire.AppendString(append(b, `{"type":"reasoning_text","text":`...), text), '}')
	}
	return append(b, ']')
}
