package openai

import (
	"cmp"

	"tgi/server/api/deltas"
	"tgi/server/api/openaierror"
	"tgi/server/api/toolset"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// form is what differs between chat and completions.
type form struct {
	chat bool
	// names are those that its requests have for fields of a Draft.
	names openaierror.Names
	// prefix of ids; object of replies and of a stream's chunks.
	prefix, object, chunk string
}

var (
	chatForm       = form{true, nameFields("messages"), "chatcmpl-", "chat.completion", "chat.completion.chunk"}
	completionForm = form{false, nameFields("prompt"), "cmpl-", "text_completion", "text_completion"}
)

// nameFields are OpenAI's names for fields of a Draft, with that of the prompt.
func nameFields(prompt string) openaierror.Names {
	return openaierror.Names{"inputs": prompt, "max_new_tokens": "max_tokens", "top_n_tokens": "top_logprobs"}
}

// call is one request, decoded.
type call struct {
	form    *form
	dialect *dialect.Dialect
	id      string
	created int64
	named   string          // the model that the body names; "" for none
	model   *dispatch.Model // what runs it
	// drafts has one for each prompt, and each prompt n choices. Those of a completion
	// are made of prompts and draft once it is known how many there may be.
	drafts  []generate.Draft
	prompts []prompt
	draft   generate.Draft
	n       int
	tier    generate.Tier // empty where the request names none

	predicted     bool // its usage tells of a prediction
	stream, usage bool
	top           int // likeliest tokens beside each
	// shown says what of the sequences is.
	shown deltas.Settings
	// functions: a call is written in the form of OpenAI's older API.
	functions bool
	// tools are a chat's, wants the MCP servers whose tools it wants, and offer tells the model of them. rounds are
	// those that it makes of their tools; nil for none.
	tools  *toolset.Set
	wants  []mcp.Want
	offer  func() error
	rounds *rounds
}

// settings are the fields that both forms of request have, except the prompt.
type settings struct {
	draft      generate.Draft
	model      *string
	stream     bool
	usage      bool
	keepStop   bool
	maxTokens  *uint32
	beamSearch bool
}

// fields of a request, OpenAI's and those that other servers of its API added.
func (s *settings) fields() []wire.Field {
	d := &s.draft
	list := append(fields.Sampling(d), []wire.Field{
		{Name: "model", Read: wire.Optional(&s.model, (*wire.Reader).String)},
		{Name: "max_tokens", Read: wire.Optional(&s.maxTokens, (*wire.Reader).Uint32)},
		{Name: "n", Read: wire.Optional(&d.N, (*wire.Reader).Usize)},
		{Name: "stream", Read: fields.Flag(&s.stream)},
		{Name: "stream_options", Read: s.streamOptions},
		{Name: "include_stop_str_in_output", Read: fields.Flag(&s.keepStop)},
		{Name: "service_tier", Read: fields.Tier(&d.Tier)},
		{Name: "response_format", Read: fields.Grammar(&d.Grammar, "response_format")},
	}...)
	list = append(list, fields.Explain(&d.Explain), fields.Prediction(d))
	list = append(append(list, fields.Guided(&d.Grammar)...), fields.Beams(d)...)
	list = append(list, wire.Field{Name: "use_beam_search", Read: fields.Flag(&s.beamSearch)})
	for _, name := range []string{"audio", "bad_words", "min_tokens", "stop_token_ids", "web_search_options"} {
		list = append(list, wire.Field{Name: name, Read: fields.Unset(name)})
	}
	return list
}

// newCall returns what the settings come to.
func newCall(s *settings, f *form, d *dialect.Dialect) (*call, error) {
	c := &call{form: f, dialect: d, n: 1, tier: s.draft.Tier, stream: s.stream, usage: s.usage && s.stream,
		predicted: s.draft.Prediction != nil,
		shown:     deltas.Settings{KeepStop: s.keepStop || d.KeepStop}}
	if s.draft.N != nil {
		c.n = int(min(*s.draft.N, 1<<20)) // generate refuses far less
	}
	s.draft.Rules, s.draft.Stream = generate.OpenAI, s.stream
	if err := s.searchBeams(f); err != nil {
		return nil, err
	}
	if s.maxTokens != nil && d.ReplyErrorObject { // TGI's error speaks of max_new_tokens
		s.draft.LengthField = cmp.Or(s.draft.LengthField, "max_tokens")
	}
	if s.maxTokens == nil && d.ChatMaxTokens > 0 {
		s.maxTokens = &d.ChatMaxTokens
	}
	s.draft.MaxNewTokens = s.maxTokens
	if s.model != nil {
		c.named = *s.model
	}
	return c, nil
}

// bind gives the call to the model that is to run it.
func (c *call) bind(m *dispatch.Model) error {
	c.model = m
	if most := m.Limits.MaxClientBatchSize; len(c.prompts) > most {
		return tooManyPrompts(most)
	}
	return c.makeDrafts()
}

// searchBeams reads use_beam_search as vLLM does: as many beams as sequences are
// asked for, unless num_beams says more.
func (s *settings) searchBeams(f *form) error {
	d := &s.draft
	if !s.beamSearch || d.NumBeams != nil {
		return nil
	}
	width := uint64(1)
	if d.N != nil && *d.N > width {
		width, d.BeamsField = *d.N, "n"
	}
	if d.BestOf != nil && *d.BestOf > width {
		width, d.BeamsField = *d.BestOf, "best_of"
	}
	if width == 1 {
		counts := "`num_beams` or `n`"
		if f == &completionForm {
			counts = "`num_beams`, `best_of` or `n`"
		}
		return &generate.Invalid{Msg: "`use_beam_search` needs " + counts + " > 1", Field: "use_beam_search"}
	}
	d.NumBeams, d.BestOf = &width, nil
	return nil
}

func (s *settings) streamOptions(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Object("struct StreamOptions", []wire.Field{{Name: "include_usage", Read: fields.Flag(&s.usage)}})
}
