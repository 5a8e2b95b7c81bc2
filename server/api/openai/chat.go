package openai

import (
	"tgi/server/api/toolset"
	"tgi/server/dialect"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// chatBody is what a chat request has besides the settings.
type chatBody struct {
	settings
	conversation generate.Conversation
	maxTokens    *uint32 // under its newer name
	logprobs     bool
	top          *uint32
	tools        toolset.Set
	wants        []mcp.Want // servers whose tools are wanted
	older        bool       // the offers are functions of OpenAI's older API
	olderChoice  bool
	newerChoice  bool
	olderCalls   int // calls of the older API in the messages that have a result
	parallel     *bool
	reasoning    *bool   // whether it is shown
	effort       *string // of reasoning
	toolPrompt   *string
	speech       bool
}

// decodeChat reads a body of POST /v1/chat/completions.
func decodeChat(text []byte, d *dialect.Dialect) (*call, error) {
	b := &chatBody{}
	list := append(b.settings.fields(), b.chatFields()...)
	list = append(list, fields.Guidance(&b.draft.Guidance, otherMessages)...)
	err := fields.Decode(text, "struct ChatRequest", list, &b.draft)
	if err != nil {
		return nil, err
	}
	if len(b.wants) == 0 {
		if err := b.offer(d); err != nil {
			return nil, err
		}
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	if b.maxTokens != nil {
		b.settings.maxTokens, b.draft.LengthField = b.maxTokens, "max_completion_tokens"
	}
	c, err := newCall(&b.settings, &chatForm, d)
	if err != nil {
		return nil, err
	}
	if c.shown.Logprobs = b.logprobs; c.shown.Logprobs && b.top != nil {
		b.draft.TopNTokens = b.top
		c.top = int(*b.top)
	}
	c.functions = b.older
	c.tools, c.wants = &b.tools, b.wants
	c.offer = func() error { return b.offer(d) }
	c.shown.Customs = b.tools.Customs()
	c.shown.HideReasoning = b.reasoning != nil && !*b.reasoning
	b.draft.Conversation = &b.conversation
	c.drafts = []generate.Draft{b.draft}
	return c, nil
}

// offer tells the model of the tools. It may be called again when there are more.
func (b *chatBody) offer(d *dialect.Dialect) error {
	if err := b.checkTools(); err != nil {
		return err
	}
	if g := b.draft.Grammar; g != nil && len(b.conversation.ToolNames) > 0 &&
		b.conversation.ToolChoice.Mode != generate.ChooseNone {
		if !d.AnswerOrCalls || g.Field != "response_format" || g.Plugin != "" {
			return generate.AnswerOrCalls(g.Field)
		}
		b.conversation.Answer = g
	}
	return nil
}

// chatFields are those of a chat request besides the settings, OpenAI's and those
// that other servers of its API added.
func (b *chatBody) chatFields() []wire.Field {
	c := &b.conversation
	return append(fields.Template(c), []wire.Field{
		{Name: "messages", Required: true, Read: b.messages},
		{Name: "max_completion_tokens", Read: wire.Optional(&b.maxTokens, (*wire.Reader).Uint32)},
		{Name: "logprobs", Read: fields.Flag(&b.logprobs)},
		{Name: "top_logprobs", Read: wire.Optional(&b.top, (*wire.Reader).Uint32)},
		{Name: "tools", Read: b.readTools},
		{Name: "tool_choice", Read: b.choice},
		{Name: "tool_prompt", Read: wire.Optional(&b.toolPrompt, (*wire.Reader).String)},
		{Name: "parallel_tool_calls", Read: wire.Optional(&b.parallel, (*wire.Reader).Bool)},
		{Name: "functions", Read: b.functions},
		{Name: "function_call", Read: b.functionCall},
		{Name: "reasoning_effort", Read: wire.Optional(&b.effort, (*wire.Reader).String)},
		{Name: "include_reasoning", Read: wire.Optional(&b.reasoning, (*wire.Reader).Bool)},
		{Name: "add_generation_prompt", Read: wire.Optional(&c.GenerationPrompt, (*wire.Reader).Bool)},
		{Name: "continue_final_message", Read: wire.Optional(&c.Continue, (*wire.Reader).Bool)},
		{Name: "modalities", Read: b.modalities},
	}...)
}

// finish brings together what several fields say.
func (b *chatBody) finish() error {
	c := &b.conversation
	switch {
	case b.speech:
		return fields.Unsupported("modalities")
	case c.Continue != nil && *c.Continue && c.GenerationPrompt != nil && *c.GenerationPrompt:
		return &generate.Invalid{Msg: "`add_generation_prompt` and `continue_final_message` must not both be true",
			Field: "continue_final_message"}
	}
	c.Parallel = (b.parallel == nil || *b.parallel) && !b.older
	if b.effort != nil {
		fields.SetVariable(c, "reasoning_effort", wire.AppendString(nil, *b.effort))
	}
	return nil
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
