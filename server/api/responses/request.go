package responses

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/server/api/deltas"
	"tgi/server/api/toolset"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// Bounds of metadata, from OpenAI's API reference.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// call is one request, decoded.
type call struct {
	id      string // of the response
	created int64
	named   string          // the model that the body names
	model   *dispatch.Model // what runs it
	draft   generate.Draft
	// input are the items of the request, context those before them.
	input, context []item
	previous       string // the response that this one follows; "" for none
	// within is the conversation that the response belongs to, conversed that the request has one: it may be lost.
	// spaces are the namespaces of tools that have one, by the tools' names.
	spaces       map[string]string
	within       string
	conversed    bool
	instructions *string

	tools toolset.Set
	wants []mcp.Want // servers whose tools are wanted
	loop  *mcp.Loop  // what is used of them; nil for nothing
	// rounds are the items of rounds of calls that are over.
	rounds []item

	stream, background, store bool
	truncate                  bool // drop the oldest items that do not fit
	logprobs, sealed          bool // what include asks for
	settings                  deltas.Settings
	shown                     shown
}

// shown is what a response repeats of its request, as it was written; nil for what was not given.
type shown struct {
	tools, choice, format, metadata []byte
	verbosity, effort, summary      string
	user, safety, cacheKey          string
	parallel                        bool
	most, calls                     *uint32
	top                             uint32
}

// body is a request while it is read.
type body struct {
	call
	conversation generate.Conversation
	most         *uint32
	top          *uint32
	parallel     *bool
	storing      *bool
	truncation   string
	space        string // the namespace that is being read
}

// decode reads a body of POST /v1/responses where it generates, and else of /v1/responses/input_tokens.
func decode(text []byte, generates bool) (*call, error) {
	b := &body{}
	list := b.fields()
	err := fields.Decode(text, "struct ResponsesRequest", list, &b.draft)
	if err != nil {
		return nil, err
	}
	return b.finish(generates)
}

// finish brings together what several members say.
func (b *body) finish(generates bool) (*call, error) {
	c := &b.conversation
	b.shown.parallel = b.parallel == nil || *b.parallel
	c.Parallel = b.shown.parallel
	b.draft.Conversation = c
	if len(b.wants) == 0 {
		if err := b.call.offer(); err != nil {
			return nil, err
		}
	}
	if c.Continue == nil {
		c.Continue = new(bool)
	}
	d := &b.draft
	d.Rules, d.Stream, d.Clip = generate.OpenAI, b.stream, true
	d.MaxNewTokens, d.LengthField = b.most, "max_output_tokens"
	b.shown.most = b.most
	if b.logprobs || b.top != nil {
		b.settings.Logprobs = b.logprobs
		if b.top != nil {
			b.shown.top, d.TopNTokens = *b.top, b.top
		}
	}
	b.settings.Customs = b.tools.Customs()
	b.store = b.storing == nil || *b.storing
	b.truncate = b.truncation == "auto"
	b.conversed = b.within != ""
	switch {
	case b.conversed && b.previous != "":
		return nil, &generate.Invalid{Field: "conversation",
			Msg: "`conversation` and `previous_response_id` exclude each other"}
	case b.background && !b.store:
		return nil, &generate.Invalid{Field: "background",
			Msg: "`background` needs `store`: a response is asked for by its id"}
	case generates && len(b.input) == 0 && b.previous == "" && !b.conversed && b.instructions == nil:
		return nil, &generate.Invalid{Field: "input", Msg: "`input` must have at least one item"}
	}
	return &b.call, nil
}

// offer tells the model of the tools. It may be called again when there are more.
func (c *call) offer() error {
	v := c.draft.Conversation
	if err := c.tools.Apply(v); err != nil {
		return err
	}
	if g := c.draft.Grammar; g != nil && len(v.ToolNames) > 0 && v.ToolChoice.Mode != generate.ChooseNone {
		if g.Field != "text.format" || g.Plugin != "" {
			return generate.AnswerOrCalls(g.Field)
		}
		v.Answer = g
	}
	return nil
}

// fields are those of a request: OpenAI's, and those that chat has beside them.
func (b *body) fields() []wire.Field {
	d, s := &b.draft, &b.shown
	list := append(fields.Sampling(d), fields.Guided(&d.Grammar)...)
	list = append(append(list, fields.Template(&b.conversation)...), []wire.Field{
		{Name: "model", Read: fields.Text(&b.named)},
		{Name: "input", Read: b.readInput},
		{Name: "instructions", Read: wire.Optional(&b.instructions, (*wire.Reader).String)},
		{Name: "previous_response_id", Read: fields.Text(&b.previous)},
		{Name: "conversation", Read: readConversation(&b.within)},
		{Name: "store", Read: wire.Optional(&b.storing, (*wire.Reader).Bool)},
		{Name: "stream", Read: fields.Flag(&b.stream)},
		{Name: "background", Read: fields.Flag(&b.background)},
		{Name: "include", Read: b.include},
		{Name: "max_output_tokens", Read: wire.Optional(&b.most, (*wire.Reader).Positive32)},
		{Name: "max_tool_calls", Read: wire.Optional(&s.calls, (*wire.Reader).Uint32)},
		{Name: "metadata", Read: b.metadata},
		{Name: "tools", Read: b.readTools},
		{Name: "tool_choice", Read: b.toolChoice},
		{Name: "parallel_tool_calls", Read: wire.Optional(&b.parallel, (*wire.Reader).Bool)},
		{Name: "text", Read: b.text},
		{Name: "reasoning", Read: b.reasoning},
		{Name: "top_logprobs", Read: wire.Optional(&b.top, (*wire.Reader).Uint32)},
		{Name: "truncation", Read: fields.Word(&b.truncation, "auto", "disabled")},
		{Name: "user", Read: fields.Text(&s.user)},
		{Name: "safety_identifier", Read: fields.Text(&s.safety)},
		{Name: "prompt_cache_key", Read: fields.Text(&s.cacheKey)},
		{Name: "service_tier", Read: fields.Tier(&d.Tier)},
		{Name: "stream_options", Read: streamOptions}, fields.Explain(&d.Explain), fields.Prediction(d),
		{Name: "continue_final_message", Read: wire.Optional(&b.conversation.Continue, (*wire.Reader).Bool)},
	}...)
	list = append(list, fields.Guidance(&d.Guidance, otherMessages)...)
	for _, name := range []string{"prompt", "moderation", "context_management", "background_options",
		"access_programs"} {
		list = append(list, wire.Field{Name: name, Read: fields.Unset(name)})
	}
	return list
}

// otherMessages reads a second conversation: items as input has them.
func otherMessages(r *wire.Reader) ([]generate.Message, error) {
	var items []item
	err := r.Array(func(i int) error {
		one, err := readItem(r, fmt.Sprintf("negative_messages[%d]", i))
		items = append(items, one)
		return err
	})
	return messages(nil, items), err
}

// readInput reads a text, or items.
func (b *body) readInput(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		one := itemReader{item: item{kind: kindMessage, role: "user"}}
		one.say(s)
		b.input = []item{one.item}
		return err
	}, func(r *wire.Reader) error {
		b.input = nil
		return r.Array(func(i int) error {
			one, err := readItem(r, fmt.Sprintf("input[%d]", i))
			b.input = append(b.input, one)
			return err
		})
	})
}

// include reads what replies are to have. What is about tools that are not here asks for nothing.
func (b *body) include(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		what := ""
		if err := fields.Given(&what, includable...)(r); err != nil {
			return err
		}
		b.logprobs = b.logprobs || what == "message.output_text.logprobs"
		b.sealed = b.sealed || what == "reasoning.encrypted_content"
		return nil
	})
}

// includable is what may be included.
var includable = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
	"message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
	"reasoning.encrypted_content", "message.output_text.logprobs",
}

// metadata reads a map of texts, or null, and keeps it as it was written.
func (b *body) metadata(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	start, n := *r, 0
	err := r.Map("a map of texts", func(key string) error {
		value, err := r.String()
		n++
		switch {
		case err != nil:
			return err
		case n > maxMetadata:
			return r.Refuse(fmt.Sprintf("invalid length: %d, expected at most %d members", n, maxMetadata))
		case utf8.RuneCountInString(key) > maxMetadataKey:
			return r.Refuse(fmt.Sprintf("invalid length: %d, expected a key of at most %d characters",
				utf8.RuneCountInString(key), maxMetadataKey))
		case utf8.RuneCountInString(value) > maxMetadataValue:
			return r.Refuse(fmt.Sprintf("invalid length: %d, expected at most %d characters",
				utf8.RuneCountInString(value), maxMetadataValue))
		}
		return nil
	})
	b.shown.metadata = slices.Clone(r.Since(start))
	return err
}

// text reads the format of the answer and how wordy it is to be, which is the template's.
func (b *body) text(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	err := r.Object("struct Text", []wire.Field{
		{Name: "format", Read: b.format},
		{Name: "verbosity", Read: fields.Word(&b.shown.verbosity, "low", "medium", "high")},
	})
	if err == nil && b.shown.verbosity != "" {
		fields.SetVariable(&b.conversation, "verbosity", wire.AppendString(nil, b.shown.verbosity))
	}
	return err
}

// format reads what the answer is held to, or null.
func (b *body) format(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	start := *r
	kind, name := "", ""
	var schema []byte
	var strict *bool
	err := r.Object("struct Format", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(&kind, "text", "json_object", "json_schema")},
		{Name: "name", Read: fields.Text(&name)},
		{Name: "schema", Read: wire.Into(&schema, (*wire.Reader).RawObject)},
		{Name: "strict", Read: wire.Optional(&strict, (*wire.Reader).Bool)},
	})
	if err != nil {
		return err
	}
	b.shown.format = r.Since(start)
	g := &generate.Grammar{Language: generate.JSONObject}
	switch {
	case kind == "text":
		return nil
	case kind == "json_schema" && schema == nil:
		return r.Refuse("missing field `schema`")
	case kind == "json_schema":
		g.Language, g.Source = generate.JSONSchema, schema
		if strict != nil {
			g.Params = fmt.Appendf(nil, `{"lenient":%t}`, !*strict)
		}
	}
	return fields.Hold(&b.draft.Grammar, g, "text.format")
}

// reasoning reads how much the model is to think: variables of the template.
func (b *body) reasoning(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	s := &b.shown
	err := r.Object("struct Reasoning", []wire.Field{
		{Name: "effort", Read: fields.Word(&s.effort, "none", "minimal", "low", "medium", "high", "xhigh", "max")},
		{Name: "summary", Read: fields.Word(&s.summary, "auto", "concise", "detailed", "none")},
		{Name: "generate_summary", Read: fields.Word(&s.summary, "auto", "concise", "detailed", "none")},
	})
	if err == nil && s.effort != "" {
		fields.SetVariable(&b.conversation, "reasoning_effort", wire.AppendString(nil, s.effort))
		if s.effort == "none" {
			fields.SetVariable(&b.conversation, "enable_thinking", []byte("false"))
		}
	}
	return err
}

// streamOptions reads whether events are padded, which none is, or null.
func streamOptions(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Object("struct StreamOptions", []wire.Field{{Name: "include_obfuscation", Read: fields.Flag(new(bool))}})
}

// core returns the part of an id that the ids of a response and its items share, "" of an id that is none of these.
func core(id string) string {
	_, rest, _ := strings.Cut(id, "_")
	rest, _, _ = strings.Cut(rest, "_")
	return rest
}
