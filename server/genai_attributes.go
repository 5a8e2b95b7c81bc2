package server

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/wire"
)

// attributes are those of the span of a call of a model.
func (c *modelCall) attributes(requested, served string) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", string(c.operation)),
		attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", bounded(requested)),
		attribute.String("gen_ai.response.model", served),
		attribute.Int("gen_ai.usage.input_tokens", c.input),
	}
	if c.width > 0 {
		list = append(list, attribute.Int("gen_ai.embeddings.dimension.count", c.width))
	}
	if !c.generates {
		return list
	}
	p := &c.params
	list = append(list, attribute.Int("gen_ai.request.max_tokens", p.MaxNewTokens),
		attribute.Int("gen_ai.usage.output_tokens", c.output()),
		attribute.Int("gen_ai.usage.cache_read.input_tokens", c.cached))
	if p.Sample {
		list = append(list, attribute.Float64("gen_ai.request.temperature", float64(p.Temperature)),
			attribute.Float64("gen_ai.request.top_p", float64(p.TopP)))
		if p.TopK > 0 {
			list = append(list, attribute.Float64("gen_ai.request.top_k", float64(p.TopK)))
		}
	} else {
		list = append(list, attribute.Float64("gen_ai.request.temperature", 0))
	}
	if c.sequences > 1 {
		list = append(list, attribute.Int("gen_ai.request.choice.count", c.sequences))
	}
	if d := c.draft; d != nil {
		list = append(list, draftAttributes(d)...)
		if d.Stream && !c.first.IsZero() {
			list = append(list, attribute.Float64("gen_ai.response.time_to_first_chunk",
				c.first.Sub(c.submitted).Seconds()))
		}
	}
	if len(c.finishes) > 0 {
		reasons := make([]string, len(c.finishes))
		for i := range c.finishes {
			reasons[i] = finishReason(&c.finishes[i])
		}
		list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", reasons))
	}
	return list
}

// draftAttributes are what a request asked for. Its stop strings are a user's words, and left out.
func draftAttributes(d *generate.Draft) (list []attribute.KeyValue) {
	if d.Stream {
		list = append(list, attribute.Bool("gen_ai.request.stream", true))
	}
	if d.Seed != nil {
		list = append(list, attribute.Int64("gen_ai.request.seed", int64(*d.Seed)))
	}
	if f := d.FrequencyPenalty; f != nil {
		list = append(list, attribute.Float64("gen_ai.request.frequency_penalty", float64(*f)))
	}
	if f := d.PresencePenalty; f != nil {
		list = append(list, attribute.Float64("gen_ai.request.presence_penalty", float64(*f)))
	}
	kind := "text"
	if g := d.Grammar; g != nil && (g.Language == generate.JSONSchema || g.Language == generate.JSONObject) {
		kind = "json"
	}
	return append(list, attribute.String("gen_ai.output.type", kind))
}

// finishReason is why a sequence ended, in the words of OpenAI's API.
func finishReason(f *llm.Finish) string {
	if f.Reason == llm.FinishLength {
		return "length"
	}
	return "stop"
}

// mostContent bounds what is said, in one attribute of a span.
const mostContent = 64 << 10

// content are the attributes that hold what was said; none of a text or its vectors.
func (c *modelCall) content() []attribute.KeyValue {
	if c.draft == nil || c.draft.Conversation == nil {
		return nil
	}
	said := func(key string, b []byte) attribute.KeyValue {
		if len(b) > mostContent {
			b = wire.AppendString(nil, strings.ToValidUTF8(string(b[:mostContent]), "")) // cut JSON is a text
		}
		return attribute.String(key, string(b))
	}
	in := []byte{'['}
	for i := range c.draft.Conversation.Messages {
		in = appendSaid(wire.Comma(in, i), &c.draft.Conversation.Messages[i])
		if len(in) > mostContent {
			break
		}
	}
	out := []byte{'['}
	for i := range c.finishes {
		f := &c.finishes[i]
		out = wire.AppendString(append(wire.Comma(out, i),
			`{"role":"assistant","parts":[{"type":"text","content":`...), f.Text[:len(f.Text)-f.StopBytes])
		out = append(wire.AppendString(append(out, `}],"finish_reason":`...), finishReason(f)), '}')
	}
	list := []attribute.KeyValue{said("gen_ai.input.messages", append(in, ']')),
		said("gen_ai.output.messages", append(out, ']'))}
	if tools := c.draft.Conversation.Tools; tools != nil {
		list = append(list, said("gen_ai.tool.definitions", tools))
	}
	return list
}

// appendSaid writes a message in the form of the conventions: its parts, without what images show.
func appendSaid(b []byte, m *generate.Message) []byte {
	var in struct {
		Content    json.RawMessage
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
	_ = json.Unmarshal(m.JSON, &in) // it was written by this server
	type part struct {
		Type     string          `json:"type"`
		Content  string          `json:"content,omitempty"`
		Modality string          `json:"modality,omitempty"`
		ID       string          `json:"id,omitempty"`
		Name     string          `json:"name,omitempty"`
		Args     json.RawMessage `json:"arguments,omitempty"`
		Response json.RawMessage `json:"response,omitempty"`
	}
	parts := []part{}
	var text string
	var list []struct{ Type, Text string }
	switch {
	case m.Role == "tool":
		parts = append(parts, part{Type: "tool_call_response", ID: in.ToolCallID, Response: in.Content})
	case json.Unmarshal(in.Content, &text) == nil && text != "":
		parts = append(parts, part{Type: "text", Content: text})
	case json.Unmarshal(in.Content, &list) == nil:
		for _, p := range list {
			if p.Type == "text" {
				parts = append(parts, part{Type: "text", Content: p.Text})
			} else {
				parts = append(parts, part{Type: "uri", Modality: "image"})
			}
		}
	}
	for _, call := range in.ToolCalls {
		parts = append(parts, part{Type: "tool_call", ID: call.ID, Name: call.Function.Name,
			Args: call.Function.Arguments})
	}
	b = wire.AppendString(append(b, `{"role":`...), m.Role)
	said, _ := json.Marshal(parts) // of nothing that has no JSON form
	return append(append(append(b, `,"parts":`...), said...), '}')
}
