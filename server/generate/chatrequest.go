package generate

import (
	"strconv"
	"time"
	"unicode/utf8"

	"tgi/server/wire"
)

// maxPromptEnd is how much of the prompt a parser gets to see, in bytes.
const maxPromptEnd = 1024

// TemplateRequest returns the conversation as the plugins' contract hands it to
// a template, without the member "params". now is the time of the request.
func (c *Conversation) TemplateRequest(now time.Time) []byte {
	b := []byte(`{"messages":[`)
	for i := range c.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, c.Messages[i].JSON...)
	}
	b = append(b, ']')
	if c.offers() {
		b = append(append(b, `,"tools":`...), c.Tools...)
	}
	if c.Documents != nil {
		b = append(append(b, `,"documents":`...), c.Documents...)
	}
	goesOn := c.continues()
	ask := !goesOn
	if c.GenerationPrompt != nil {
		ask = *c.GenerationPrompt
	}
	b = strconv.AppendBool(append(b, `,"add_generation_prompt":`...), ask)
	b = strconv.AppendBool(append(b, `,"continue_final_message":`...), goesOn)
	if c.Kwargs != nil {
		b = append(append(b, `,"kwargs":`...), c.Kwargs...)
	}
	if c.Template != "" {
		b = wire.AppendString(append(b, `,"template":`...), c.Template)
	}
	b = wire.AppendString(append(b, `,"now":`...), now.Format(time.RFC3339Nano))
	return append(b, '}')
}

// ToolsRequest returns what the plugins' contract hands to a parser, without the
// member "params". promptEnd is the end of the prompt's text, or all of it.
func (c *Conversation) ToolsRequest(promptEnd string) []byte {
	b := []byte{'{'}
	if c.offers() {
		b = append(append(append(b, `"tools":`...), c.Tools...), ',')
	}
	b = append(b, `"tool_choice":`...)
	switch c.ToolChoice.Mode {
	case ChooseAuto:
		b = append(b, `"auto"`...)
	case ChooseNone:
		b = append(b, `"none"`...)
	case ChooseRequired:
		b = append(b, `"required"`...)
	case ChooseNamed:
		b = append(wire.AppendString(append(b, `{"name":`...), c.ToolChoice.Name), '}')
	}
	b = strconv.AppendBool(append(b, `,"parallel_tool_calls":`...), c.allowsSeveral())
	cut := max(0, len(promptEnd)-maxPromptEnd)
	for cut < len(promptEnd) && !utf8.RuneStart(promptEnd[cut]) {
		cut++
	}
	b = wire.AppendString(append(b, `,"prompt_end":`...), promptEnd[cut:])
	return append(b, '}')
}

// ConstraintRequest returns what the plugins' contract hands to a parser that is
// asked what a reply is held to: tools, which is what ToolsRequest returned, and Answer.
func (c *Conversation) ConstraintRequest(tools []byte) []byte {
	if c.Answer == nil {
		return tools
	}
	end := len(tools) - 1
	b := wire.AppendString(append(tools[:end:end], `,"answer":{"language":`...), c.Answer.Language)
	b = wire.AppendString(append(b, `,"source":`...), string(c.Answer.Source))
	if c.Answer.Params != nil {
		b = append(append(b, `,"params":`...), c.Answer.Params...)
	}
	return append(b, "}}"...)
}

// offers reports whether the prompt lists the tools. If none may be called it does not:
// models call what they read about.
func (c *Conversation) offers() bool { return c.Tools != nil && c.ToolChoice.Mode != ChooseNone }

// heldWhole reports whether all of a text is held to the tools: it is a call that is demanded, or an answer beside
// them. Else strict tools hold calls alone.
func (c *Conversation) heldWhole() bool { return c.ToolChoice.Demands() || c.Answer != nil }

// heldBy names the field that has calls held to their tools, "" where none does.
func (c *Conversation) heldBy() string {
	switch {
	case c == nil || !c.offers():
		return ""
	case c.ToolChoice.Demands():
		return "tool_choice"
	case c.Strict:
		return "tools"
	}
	return ""
}
