package fields

import (
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Beams are the fields of a beam search, under transformers' names.
func Beams(d *generate.Draft) []wire.Field {
	return []wire.Field{
		{Name: "num_beams", Read: wire.Optional(&d.NumBeams, (*wire.Reader).Usize)},
		{Name: "length_penalty", Read: wire.Optional(&d.LengthPenalty, (*wire.Reader).Float32)},
		{Name: "early_stopping", Read: earlyStopping(&d.EarlyStopping)},
	}
}

// earlyStopping reads true, false, "never" or null.
func earlyStopping(dst *llm.EarlyStopping) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		start := *r
		if full, err := r.Bool(); err == nil {
			*dst = llm.StopUnlikely
			if full {
				*dst = llm.StopFull
			}
			return nil
		}
		*r = start
		if word, err := r.String(); err != nil || word != "never" {
			*r = start
			return r.Refuse("invalid value, expected true, false or \"never\"")
		}
		*dst = llm.StopNever
		return nil
	}
}
