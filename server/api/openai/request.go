package openai

import (
	"errors"

	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// form is what differs between chat and completions.
type form struct {
	chat bool
	// prefix of ids; object of replies and of a stream's chunks.
	prefix, object, chunk string
}

var (
	chatForm       = form{true, "chatcmpl-", "chat.completion", "chat.completion.chunk"}
	completionForm = form{false, "cmpl-", "text_completion", "text_completion"}
)

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

	stream, usage bool
	logprobs      bool
	top           int // likeliest tokens beside each
	keepStop      bool
	echo          bool
	// scoreOnly hides the token that a call for none has to generate.
	scoreOnly bool
	// callID makes the ids of tool calls that the model gives none.
	callID func() string
	// hideReasoning leaves out what the model thinks.
	hideReasoning bool
	// functions: a call is written in the form of OpenAI's older API.
	functions bool
	// customs are the names of the tools that take a text.
	customs map[string]bool
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
	list := []wire.Field{
		{Name: "model", Read: wire.Optional(&s.model, (*wire.Reader).String)},
		{Name: "frequency_penalty", Read: wire.Optional(&d.FrequencyPenalty, (*wire.Reader).Float32)},
		{Name: "presence_penalty", Read: wire.Optional(&d.PresencePenalty, (*wire.Reader).Float32)},
		{Name: "logit_bias", Read: bias(&d.LogitBias)},
		{Name: "max_tokens", Read: wire.Optional(&s.maxTokens, (*wire.Reader).Uint32)},
		{Name: "n", Read: wire.Optional(&d.N, (*wire.Reader).Usize)},
		{Name: "seed", Read: wire.Optional(&d.Seed, seed)},
		{Name: "stop", Read: stops(&d.Stop)},
		{Name: "stream", Read: boolean(&s.stream)},
		{Name: "stream_options", Read: s.streamOptions},
		{Name: "temperature", Read: wire.Optional(&d.Temperature, (*wire.Reader).Float32)},
		{Name: "top_p", Read: wire.Optional(&d.TopP, (*wire.Reader).Float32)},
		{Name: "top_k", Read: wire.Optional(&d.TopK, (*wire.Reader).Int32)},
		{Name: "min_p", Read: wire.Optional(&d.MinP, (*wire.Reader).Float32)},
		{Name: "typical_p", Read: wire.Optional(&d.TypicalP, (*wire.Reader).Float32)},
		{Name: "repetition_penalty", Read: wire.Optional(&d.RepetitionPenalty, (*wire.Reader).Float32)},
		{Name: "ignore_eos", Read: boolean(&d.IgnoreEOS)},
		{Name: "include_stop_str_in_output", Read: boolean(&s.keepStop)},
		{Name: "plugins", Read: fields.Plugins(&d.Plugins)},
		{Name: "response_format", Read: fields.Grammar(&d.Grammar, "response_format")},
	}
	list = append(append(list, guided(&d.Grammar)...), fields.Beams(d)...)
	list = append(list, wire.Field{Name: "use_beam_search", Read: boolean(&s.beamSearch)})
	for _, name := range []string{"audio", "bad_words", "min_tokens", "stop_token_ids", "web_search_options"} {
		list = append(list, wire.Field{Name: name, Read: unset(name)})
	}
	return list
}

// newCall returns what the settings come to.
func newCall(s *settings, f *form, d *dialect.Dialect) (*call, error) {
	c := &call{form: f, dialect: d, n: 1, stream: s.stream, usage: s.usage && s.stream, keepStop: s.keepStop ||
		d.KeepStop}
	if s.draft.N != nil {
		c.n = int(min(*s.draft.N, 1<<20)) // generate refuses far less
	}
	s.draft.Rules, s.draft.Stream = generate.OpenAI, s.stream
	if err := s.searchBeams(); err != nil {
		return nil, err
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
func (s *settings) searchBeams() error {
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
		return &generate.Invalid{Msg: "`use_beam_search` needs `num_beams`, `best_of` or `n` > 1",
			Field: "use_beam_search"}
	}
	d.NumBeams, d.BestOf = &width, nil
	return nil
}

func (s *settings) streamOptions(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Object("struct StreamOptions", []wire.Field{{Name: "include_usage", Read: boolean(&s.usage)}})
}

// boolean reads a boolean; null is false.
func boolean(dst *bool) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return wire.Into(dst, (*wire.Reader).Bool)(r)
	}
}

// seed reads any 64-bit seed, and the negative ones of 32 bits that OpenAI's
// signed type allows.
func seed(r *wire.Reader) (n uint64, err error) {
	err = either(r, wire.Into(&n, (*wire.Reader).Uint64), func(r *wire.Reader) error {
		i, err := r.Int32()
		n = uint64(int64(i))
		return err
	})
	return n, err
}

// stops reads one stop string, several or null.
func stops(dst *[]string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return either(r, wire.Into(dst, (*wire.Reader).Strings), func(r *wire.Reader) error {
			s, err := r.String()
			*dst = []string{s}
			return err
		})
	}
}

// bias reads OpenAI's map of token ids, null, or the empty list of clients that
// know TGI's type for it.
func bias(dst *map[uint32]float32) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		return either(r, fields.LogitBias(dst), func(r *wire.Reader) error {
			return r.Array(func(int) error {
				return r.Refuse("invalid type: sequence, expected a map from token ids to numbers")
			})
		})
	}
}

// unset reads a field that would change what is generated and is not supported:
// only a value that asks for nothing is taken.
func unset(name string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		start := *r
		if err := r.Skip(); err != nil {
			return err
		}
		none := errors.New("not empty")
		for _, read := range []func(*wire.Reader) error{
			func(r *wire.Reader) error {
				if null, _ := r.Null(); !null {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error {
				if v, err := r.Bool(); err != nil || v {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error {
				if v, err := r.Float32(); err != nil || v != 0 {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error { return r.Array(func(int) error { return none }) },
			func(r *wire.Reader) error { return r.Map("a map", func(string) error { return none }) },
		} {
			probe := start
			if read(&probe) == nil {
				return nil
			}
		}
		return unsupported(name)
	}
}

// either reads a value that may have one of several shapes. Where none fits, the
// error is that of the shape which fitted longest.
func either(r *wire.Reader, shapes ...func(*wire.Reader) error) error {
	start := *r
	var furthest *wire.Error
	for _, read := range shapes {
		*r = start
		err := read(r)
		var e *wire.Error
		if !errors.As(err, &e) || errors.Is(err, wire.ErrSyntax) {
			return err
		}
		if furthest == nil || e.Line > furthest.Line || e.Line == furthest.Line && e.Column > furthest.Column {
			furthest = e
		}
	}
	return furthest
}
