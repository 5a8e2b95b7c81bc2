package tgi

import (
	"strconv"

	"tgi/server/generate"
	"tgi/server/wire"
)

// body is GenerateRequest, with the stream switch of POST /.
type body struct {
	draft generate.Draft
	// details and fullText shape the reply.
	details  bool
	fullText *bool
	stream   bool
}

// decodeBody reads a GenerateRequest. compat adds what POST / takes beside it.
func decodeBody(text []byte, compat bool) (*body, error) {
	b := &body{}
	// Absent parameters sample, empty ones do not: clients depend on both.
	b.draft.DoSample = true
	want := "struct GenerateRequest"
	fields := []wire.Field{
		{Name: "inputs", Required: true, Read: wire.Into(&b.draft.Inputs, (*wire.Reader).String)},
		{Name: "parameters", Read: b.parameters},
	}
	if compat {
		want = "struct CompatGenerateRequest"
		fields = append(fields, wire.Field{Name: "stream", Read: wire.Into(&b.stream, (*wire.Reader).Bool)})
	}
	err := wire.Decode(text, func(r *wire.Reader) error { return r.Object(want, fields) })
	return b, err
}

// parameters reads GenerateParameters: TGI's, then min_p, presence_penalty,
// logit_bias, ignore_eos and plugins, which TGI does not know.
func (b *body) parameters(r *wire.Reader) error {
	d := &b.draft
	d.DoSample = false
	return r.Object("struct GenerateParameters", []wire.Field{
		{Name: "best_of", Read: wire.Optional(&d.BestOf, (*wire.Reader).Usize)},
		{Name: "temperature", Read: wire.Optional(&d.Temperature, (*wire.Reader).Float32)},
		{Name: "repetition_penalty", Read: wire.Optional(&d.RepetitionPenalty, (*wire.Reader).Float32)},
		{Name: "frequency_penalty", Read: wire.Optional(&d.FrequencyPenalty, (*wire.Reader).Float32)},
		{Name: "top_k", Read: wire.Optional(&d.TopK, (*wire.Reader).Int32)},
		{Name: "top_p", Read: wire.Optional(&d.TopP, (*wire.Reader).Float32)},
		{Name: "typical_p", Read: wire.Optional(&d.TypicalP, (*wire.Reader).Float32)},
		{Name: "do_sample", Read: wire.Into(&d.DoSample, (*wire.Reader).Bool)},
		{Name: "max_new_tokens", Read: wire.Optional(&d.MaxNewTokens, (*wire.Reader).Uint32)},
		{Name: "return_full_text", Read: wire.Optional(&b.fullText, (*wire.Reader).Bool)},
		{Name: "stop", Read: wire.Into(&d.Stop, (*wire.Reader).Strings)},
		{Name: "truncate", Read: wire.Optional(&d.Truncate, (*wire.Reader).Usize)},
		{Name: "watermark", Read: wire.Into(&d.Watermark, (*wire.Reader).Bool)},
		{Name: "details", Read: wire.Into(&b.details, (*wire.Reader).Bool)},
		{Name: "decoder_input_details", Read: wire.Into(&d.PromptLogprobs, (*wire.Reader).Bool)},
		{Name: "seed", Read: wire.Optional(&d.Seed, (*wire.Reader).Uint64)},
		{Name: "top_n_tokens", Read: wire.Optional(&d.TopNTokens, (*wire.Reader).Uint32)},
		{Name: "grammar", Read: present(&d.Grammar)},
		{Name: "adapter_id", Read: wire.Optional(&d.Adapter, (*wire.Reader).String)},
		{Name: "min_p", Read: wire.Optional(&d.MinP, (*wire.Reader).Float32)},
		{Name: "presence_penalty", Read: wire.Optional(&d.PresencePenalty, (*wire.Reader).Float32)},
		{Name: "logit_bias", Read: biases(&d.LogitBias)},
		{Name: "ignore_eos", Read: wire.Into(&d.IgnoreEOS, (*wire.Reader).Bool)},
		{Name: "plugins", Read: calls(&d.Plugins)},
	})
}

// present notes that a value other than null was given.
func present(dst *bool) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		none, err := r.Null()
		if none || err != nil {
			return err
		}
		*dst = true
		return r.Skip()
	}
}

// biases reads an object from token ids to addends, or null.
func biases(dst *map[uint32]float32) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		*dst = map[uint32]float32{}
		return r.Map("a map from token ids to numbers", func(key string) error {
			id, err := strconv.ParseUint(key, 10, 32)
			if err != nil {
				return r.Refuse("invalid value: key, expected a token id")
			}
			(*dst)[uint32(id)], err = r.Float32()
			return err
		})
	}
}

// calls reads an array of plugins to use, or null. Their parameters stay as
// they were written: only the plugin knows what they mean.
func calls(dst *[]generate.PluginCall) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Array(func(int) error {
			var c generate.PluginCall
			err := r.StrictObject("struct PluginCall", []wire.Field{
				{Name: "name", Required: true, Read: wire.Into(&c.Name, (*wire.Reader).String)},
				{Name: "params", Read: func(r *wire.Reader) (err error) {
					if none, err := r.Null(); none || err != nil {
						return err
					}
					c.Params, err = r.RawObject()
					return err
				}},
			})
			*dst = append(*dst, c)
			return err
		})
	}
}
