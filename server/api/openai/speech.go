package openai

import (
	"encoding/json"
	"strconv"

	"tgi/server/api/toolset"
	"tgi/server/generate"
	"tgi/server/wire"
)

// appendMessage writes what the assistant says in a whole reply. Beside calls
// there is no content where there is nothing to say: null, or no member at all
// where the arguments of calls are objects.
func (c *call) appendMessage(b []byte, content, thoughts string, calls []generate.Call) []byte {
	b = append(b, `{"role":"assistant"`...)
	switch {
	case content != "" || len(calls) == 0:
		b = wire.AppendString(append(b, `,"content":`...), content)
	case c.dialect.ToolArgumentsText:
		b = append(b, `,"content":null`...)
	}
	if thoughts != "" {
		b = appendReasoning(append(b, ','), thoughts)
	}
	if len(calls) > 0 && c.functions {
		b = wire.AppendString(append(b, `,"function_call":{"name":`...), calls[0].Name)
		b = append(wire.AppendString(append(b, `,"arguments":`...), calls[0].Arguments), '}')
	} else if len(calls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i := range calls {
			b = c.appendCall(wire.Comma(b, i), i, &calls[i])
		}
		b = append(b, ']')
	}
	if r := c.rounds; r != nil && len(r.calls) > 0 {
		b = r.appendMade(append(b, ','), 0, len(r.calls))
	}
	return append(b, '}')
}

// appendReasoning writes what the model thinks under both names that clients
// know: DeepSeek's, and the shorter one that took its place.
func appendReasoning(b []byte, text string) []byte {
	b = wire.AppendString(append(b, `"reasoning_content":`...), text)
	return wire.AppendString(append(b, `,"reasoning":`...), text)
}

// appendCall writes a call, the i-th of its message. One that the text ended in has the arguments that a stream shows.
func (c *call) appendCall(b []byte, i int, call *generate.Call) []byte {
	id := call.ID
	if !c.dialect.UniqueIDs {
		id = strconv.Itoa(i)
	}
	b = wire.AppendString(append(b, `{"id":`...), id)
	if c.shown.Customs[call.Name] {
		b = wire.AppendString(append(b, `,"type":"custom","custom":{"name":`...), call.Name)
		b = wire.AppendString(append(b, `,"input":`...), customInput(call.Arguments))
		return append(b, `}}`...)
	}
	b = append(b, `,"type":"function","function":{`...)
	if !c.dialect.ToolArgumentsText {
		b = wire.AppendString(append(b, `"description":null,"name":`...), call.Name)
		b = append(append(b, `,"arguments":`...), toolset.Whole(call.Arguments)...)
		return append(b, `}}`...)
	}
	b = wire.AppendString(append(b, `"name":`...), call.Name)
	b = wire.AppendString(append(b, `,"arguments":`...), call.Arguments)
	return append(b, `}}`...)
}

// customInput is the text that a custom tool is called with: as in streams none before the call is complete.
func customInput(arguments string) string {
	if !json.Valid([]byte(arguments)) {
		return ""
	}
	return toolset.Input(arguments)
}

// appendDelta writes what d adds to a streamed message: nothing when it is nil.
// The role stands in all deltas of dialects where it has no chunk of its own.
func (c *call) appendDelta(b []byte, d *generate.Delta, custom bool) []byte {
	b = append(b, '{')
	if !c.dialect.RoleFirst {
		b = append(b, `"role":"assistant",`...)
	}
	switch {
	case d == nil:
	case d.Kind == generate.DeltaContent:
		b = wire.AppendString(append(b, `"content":`...), d.Text)
	case d.Kind == generate.DeltaReasoning:
		b = appendReasoning(b, d.Text)
	case c.functions:
		b = appendFunctionDelta(append(b, `"function_call":`...), d)
	case c.dialect.ToolDeltaArray:
		b = append(appendCallDelta(append(b, `"tool_calls":[`...), d, custom), ']')
	default:
		b = appendCallObject(append(b, `"tool_calls":`...), d)
	}
	return append(b, '}')
}

// appendCallDelta writes a part of a call: its id and name in the first, with
// arguments that are empty, then pieces of those.
func appendCallDelta(b []byte, d *generate.Delta, custom bool) []byte {
	b = wire.AppendInt(append(b, '{'), "index", d.Index)
	if custom && d.Kind == generate.DeltaBegin {
		b = wire.AppendString(append(b, `,"id":`...), d.ID)
		b = wire.AppendString(append(b, `,"type":"custom","custom":{"name":`...), d.Name)
		return append(b, `,"input":""}}`...)
	}
	if custom {
		b = wire.AppendString(append(b, `,"custom":{"input":`...), d.Text)
		return append(b, `}}`...)
	}
	if d.Kind == generate.DeltaBegin {
		b = wire.AppendString(append(b, `,"id":`...), d.ID)
		b = wire.AppendString(append(b, `,"type":"function","function":{"name":`...), d.Name)
		return append(b, `,"arguments":""}}`...)
	}
	b = wire.AppendString(append(b, `,"function":{"arguments":`...), d.Text)
	return append(b, `}}`...)
}

// appendFunctionDelta writes a part of a call as OpenAI's older API has it.
func appendFunctionDelta(b []byte, d *generate.Delta) []byte {
	if d.Kind == generate.DeltaBegin {
		b = wire.AppendString(append(b, `{"name":`...), d.Name)
		return append(b, `,"arguments":""}`...)
	}
	return append(wire.AppendString(append(b, `{"arguments":`...), d.Text), '}')
}

// appendCallObject writes the same as TGI did when a delta had one call: all
// members are always there, the id is empty.
func appendCallObject(b []byte, d *generate.Delta) []byte {
	b = wire.AppendInt(append(b, '{'), "index", d.Index)
	b = append(b, `,"id":"","type":"function","function":{"name":`...)
	if d.Kind == generate.DeltaBegin {
		b = wire.AppendString(b, d.Name)
	} else {
		b = append(b, "null"...)
	}
	b = wire.AppendString(append(b, `,"arguments":`...), d.Text)
	return append(b, `}}`...)
}
