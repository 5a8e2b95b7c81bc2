package tgi

import (
	"net/http"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// body is GenerateRequest, with the stream switch of POST /.
type body struct {
	dialect *dialect.Dialect
	draft   generate.Draft
	// model is what the body names; "" for none.
	model string
	// details and fullText shape the reply.
	details  bool
	fullText *bool
	stream   bool
	// topPlugins are plugins that the body names outside of the parameters.
	topPlugins []generate.PluginCall
	// unused are parameters that have no effect on the route.
	unused wire.Notes
}

// newBody returns what a body without parameters means.
func newBody(d *dialect.Dialect) *body {
	b := &body{dialect: d}
	b.draft.DoSample = d.SampleByDefault
	b.limit()
	return b
}

// limit gives the draft the dialect's length.
func (b *body) limit() {
	b.draft.MaxNewTokens = nil
	if n := b.dialect.MaxNewTokens; n > 0 {
		b.draft.MaxNewTokens = &n
	}
}

// parseBody is decodeBody for a request's body, see server.Parse.
func parseBody(r *http.Request, text []byte, d *dialect.Dialect, compat bool) (*body, error) {
	return server.Parse(r.Context(), text, func(text []byte) (*body, error) { return decodeBody(text, d, compat) })
}

// decodeBody reads a GenerateRequest. compat adds what POST / accepts in addition.
func decodeBody(text []byte, d *dialect.Dialect, compat bool) (*body, error) {
	b := newBody(d)
	want := "struct GenerateRequest"
	list := []wire.Field{
		{Name: "inputs", Required: true, Read: wire.Into(&b.draft.Inputs, (*wire.Reader).String)},
		{Name: "parameters", Read: b.parameters},
		{Name: "plugins", Read: fields.Plugins(&b.topPlugins)},
		b.modelField(),
	}
	if compat {
		want = "struct CompatGenerateRequest"
		list = append(list, wire.Field{Name: "stream", Read: wire.Into(&b.stream, (*wire.Reader).Bool)})
	}
	if err := fields.Decode(text, want, list, &b.draft); err != nil {
		return b, err
	}
	return b, b.join()
}

// join takes the plugins that were named outside of the parameters, as OpenAI's routes
// have them, for those in them.
func (b *body) join() error {
	if len(b.topPlugins) > 0 && len(b.draft.Plugins) > 0 {
		return &generate.Invalid{Field: "plugins", Msg: "`plugins` is given twice, in `parameters` and beside them"}
	}
	b.draft.Plugins = append(b.draft.Plugins, b.topPlugins...)
	return nil
}

// modelField is the member model of every body: a text, or null. One that is no text is
// refused: answering from another model than was meant would be silent.
func (b *body) modelField() wire.Field {
	return wire.Field{Name: "model", Read: func(r *wire.Reader) error {
		var name *string
		err := wire.Optional(&name, (*wire.Reader).String)(r)
		if name != nil {
			b.model = *name
		}
		return err
	}}
}

// parameters reads GenerateParameters. Clients depend on two quirks: absent
// parameters may sample, empty ones do not.
func (b *body) parameters(r *wire.Reader) error {
	b.draft.DoSample = false
	b.limit()
	return r.Object("struct GenerateParameters", b.parameterFields())
}

// parameterFields are TGI's, then min_p, presence_penalty, logit_bias,
// ignore_eos, plugins, the seed of best_of, a prediction and the settings of a beam search and of guidance, which TGI
// does not know.
func (b *body) parameterFields() []wire.Field {
	d := &b.draft
	list := []wire.Field{
		{Name: "best_of", Read: wire.Optional(&d.BestOf, (*wire.Reader).Usize)},
		{Name: "temperature", Read: wire.Optional(&d.Temperature, (*wire.Reader).Float32)},
		{Name: "repetition_penalty", Read: wire.Optional(&d.RepetitionPenalty, (*wire.Reader).Float32)},
		{Name: "frequency_penalty", Read: wire.Optional(&d.FrequencyPenalty, (*wire.Reader).Float32)},
		{Name: "top_k", Read: wire.Optional(&d.TopK, (*wire.Reader).Int32)},
		{Name: "top_p", Read: wire.Optional(&d.TopP, (*wire.Reader).Float32)},
		{Name: "typical_p", Read: wire.Optional(&d.TypicalP, (*wire.Reader).Float32)},
		{Name: "do_sample", Read: wire.Into(&d.DoSample, (*wire.Reader).Bool)},
		{Name: "max_new_tokens", Read: b.maxNewTokens},
		{Name: "return_full_text", Read: wire.Optional(&b.fullText, (*wire.Reader).Bool)},
		{Name: "stop", Read: wire.Into(&d.Stop, (*wire.Reader).Strings)},
		{Name: "truncate", Read: wire.Optional(&d.Truncate, (*wire.Reader).Usize)},
		{Name: "watermark", Read: wire.Into(&d.Watermark, (*wire.Reader).Bool)},
		{Name: "details", Read: wire.Into(&b.details, (*wire.Reader).Bool)},
		{Name: "decoder_input_details", Read: wire.Into(&d.PromptLogprobs, (*wire.Reader).Bool)},
		{Name: "seed", Read: wire.Optional(&d.Seed, (*wire.Reader).Uint64)},
		{Name: "top_n_tokens", Read: wire.Optional(&d.TopNTokens, (*wire.Reader).Uint32)},
		{Name: "grammar", Read: fields.Grammar(&d.Grammar, "grammar")},
		{Name: "adapter_id", Read: wire.Optional(&d.Adapter, (*wire.Reader).String)},
		{Name: "min_p", Read: wire.Optional(&d.MinP, (*wire.Reader).Float32)},
		{Name: "presence_penalty", Read: wire.Optional(&d.PresencePenalty, (*wire.Reader).Float32)},
		{Name: "logit_bias", Read: fields.LogitBias(&d.LogitBias)},
		{Name: "ignore_eos", Read: wire.Into(&d.IgnoreEOS, (*wire.Reader).Bool)},
		{Name: "plugins", Read: fields.Plugins(&d.Plugins)},
		{Name: "token_healing", Read: wire.Optional(&d.Heal, (*wire.Reader).Bool)},
		{Name: "best_of_seed", Read: wire.Optional(&d.BestOfSeed, (*wire.Reader).Uint64)},
		fields.Explain(&d.Explain), fields.Prediction(d),
	}
	return append(append(list, fields.Beams(d)...), fields.Guidance(&d.Guidance, nil)...)
}

// maxNewTokens reads a length. Where null is allowed it is the rest of the
// context, whatever the length would be without the field.
func (b *body) maxNewTokens(r *wire.Reader) error {
	n := &b.draft.MaxNewTokens
	if !b.dialect.NullMaxNewTokens {
		*n = new(uint32)
		return wire.Into(*n, (*wire.Reader).Uint32)(r)
	}
	*n = nil
	return wire.Optional(n, (*wire.Reader).Uint32)(r)
}

// prompt returns what return_full_text puts before the texts.
func (b *body) prompt() string {
	if b.fullText != nil && *b.fullText {
		return b.draft.Inputs
	}
	return ""
}
