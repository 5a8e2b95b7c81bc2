package openai

import (
	"fmt"
	"slices"

	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/wire"
)

// chatBody is what a chat request has besides the settings.
type chatBody struct {
	settings
	conversation generate.Conversation
	maxTokens    *uint32 // under its newer name
	logprobs     bool
	top          *uint32
	offers       []offer
	offered      map[string]bool // by name
	allowed      map[string]bool // by name; nil for all
	older        bool            // the offers are functions of OpenAI's older API
	olderChoice  bool
	newerChoice  bool
	word         bool // the choice is a word such as "auto", and no object
	olderCalls   int  // calls of the older API in the messages that have a result
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
	err := wire.Decode(text, func(r *wire.Reader) error { return r.Object("struct ChatRequest", list) })
	if err != nil {
		return nil, err
	}
	if err := b.checkTools(); err != nil {
		return nil, err
	}
	if g := b.draft.Grammar; g != nil && len(b.conversation.ToolNames) > 0 &&
		b.conversation.ToolChoice.Mode != generate.ChooseNone {
		if !d.AnswerOrCalls || g.Field != "response_format" || g.Plugin != "" {
			return nil, toolFault("Grammar and tools are mutually exclusive")
		}
		b.conversation.Answer = g
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
	if c.logprobs = b.logprobs; c.logprobs && b.top != nil {
		b.draft.TopNTokens = b.top
		c.top = int(*b.top)
	}
	c.functions = b.older
	for _, o := range b.offers {
		if o.custom {
			c.customs = setName(c.customs, o.name)
		}
	}
	c.hideReasoning = b.reasoning != nil && !*b.reasoning
	b.draft.Conversation = &b.conversation
	c.drafts = []generate.Draft{b.draft}
	return c, nil
}

// setName puts a name into a set, which may be nil.
func setName(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// chatFields are those of a chat request besides the settings, OpenAI's and those
// that other servers of its API added.
func (b *chatBody) chatFields() []wire.Field {
	c := &b.conversation
	return []wire.Field{
		{Name: "messages", Required: true, Read: b.messages},
		{Name: "max_completion_tokens", Read: wire.Optional(&b.maxTokens, (*wire.Reader).Uint32)},
		{Name: "logprobs", Read: boolean(&b.logprobs)},
		{Name: "top_logprobs", Read: wire.Optional(&b.top, (*wire.Reader).Uint32)},
		{Name: "tools", Read: b.tools},
		{Name: "tool_choice", Read: b.choice},
		{Name: "tool_prompt", Read: wire.Optional(&b.toolPrompt, (*wire.Reader).String)},
		{Name: "parallel_tool_calls", Read: wire.Optional(&b.parallel, (*wire.Reader).Bool)},
		{Name: "functions", Read: b.functions},
		{Name: "function_call", Read: b.functionCall},
		{Name: "documents", Read: b.documents},
		{Name: "chat_template", Read: b.template},
		{Name: "chat_template_kwargs", Read: b.kwargs},
		{Name: "reasoning_effort", Read: wire.Optional(&b.effort, (*wire.Reader).String)},
		{Name: "include_reasoning", Read: wire.Optional(&b.reasoning, (*wire.Reader).Bool)},
		{Name: "add_generation_prompt", Read: wire.Optional(&c.GenerationPrompt, (*wire.Reader).Bool)},
		{Name: "continue_final_message", Read: wire.Optional(&c.Continue, (*wire.Reader).Bool)},
		{Name: "modalities", Read: b.modalities},
	}
}

// finish brings together what several fields say.
func (b *chatBody) finish() error {
	c := &b.conversation
	switch {
	case b.speech:
		return unsupported("modalities")
	case c.Continue != nil && *c.Continue && c.GenerationPrompt != nil && *c.GenerationPrompt:
		return &generate.Invalid{Msg: "`add_generation_prompt` and `continue_final_message` must not both be true",
			Field: "continue_final_message"}
	}
	c.Parallel = (b.parallel == nil || *b.parallel) && !b.older
	if b.effort != nil {
		list := members(c.Kwargs)
		if find(list, "reasoning_effort") == nil {
			list = append(list, member{"reasoning_effort", wire.AppendString(nil, *b.effort)})
		}
		c.Kwargs = appendMembers(nil, list)
	}
	return nil
}

// documents reads a list of objects, or null, and keeps it as it was written. Some
// clients have no place for it but chat_template_kwargs.
func (b *chatBody) documents(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	out := []byte{'['}
	err := r.Array(func(i int) error {
		raw, err := r.RawObject()
		out = append(comma(out, i), raw...)
		return err
	})
	if err != nil {
		return err
	}
	if b.conversation.Documents != nil {
		return &generate.Invalid{Msg: "`documents` and `chat_template_kwargs.documents` must not both be given",
			Field: "documents"}
	}
	if len(out) > 1 {
		b.conversation.Documents = append(out, ']')
	}
	return nil
}

// template reads the name of one of the model's templates, or null. A template of
// the client's own is refused: what runs on the server is the operator's.
func (b *chatBody) template(r *wire.Reader) error {
	var name *string
	if err := wire.Optional(&name, (*wire.Reader).String)(r); err != nil || name == nil {
		return err
	}
	if !isName(*name) {
		return &generate.Invalid{
			Msg: fmt.Sprintf("`chat_template` takes the name of one of the model's templates; another template is "+
				"installed as a plugin of kind template. Given: %.64q", *name),
			Field: "chat_template",
		}
	}
	b.conversation.Template = *name
	return nil
}

// requestMembers are the variables of a template that the request itself has.
var requestMembers = []string{"messages", "tools", "add_generation_prompt"}

// kwargs keeps the template's variables as they were written, except documents,
// which are the request's wherever they stand.
func (b *chatBody) kwargs(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	inner := *r
	raw, err := r.RawObject()
	if err != nil {
		return err
	}
	b.conversation.Kwargs = raw
	list := members(raw)
	for _, m := range list {
		if slices.Contains(requestMembers, m.name) {
			return &generate.Invalid{Field: "chat_template_kwargs", Msg: "`chat_template_kwargs` must not hold `" +
				m.name + "`, which is a member of the request itself"}
		}
	}
	if find(list, "documents") == nil {
		return nil
	}
	list = slices.DeleteFunc(list, func(m member) bool { return m.name == "documents" })
	b.conversation.Kwargs = appendMembers(nil, list)
	return inner.Object("a map", []wire.Field{{Name: "documents", Read: b.documents}})
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
