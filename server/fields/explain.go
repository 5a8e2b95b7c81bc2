package fields

import (
	"tgi/server/generate"
	"tgi/server/wire"
)

// explainShapes is what the field explain may be.
const explainShapes = `true, false, "receipt" or an object such as {"top": 5, "tokens": 256}`

// Explain is the field explain: true, false, null, "receipt" for the receipt alone, or an object with what is wanted.
func Explain(dst **generate.Explain) wire.Field {
	return wire.Field{Name: "explain", Read: func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return OneOf(r, explainShapes, func(r *wire.Reader) error {
			on, err := r.Bool()
			if *dst = nil; on {
				*dst = &generate.Explain{}
			}
			return err
		}, func(r *wire.Reader) error {
			word := ""
			err := Word(&word, "receipt")(r)
			if *dst = nil; word != "" {
				*dst = &generate.Explain{Tokens: new(uint64)}
			}
			return err
		}, func(r *wire.Reader) error {
			e := &generate.Explain{}
			*dst = e
			return r.StrictObject(`true, or an object such as {"top": 5, "tokens": 256}`, []wire.Field{
				{Name: "top", Read: wire.Optional(&e.Top, (*wire.Reader).Usize)},
				{Name: "tokens", Read: wire.Optional(&e.Tokens, (*wire.Reader).Usize)},
			})
		})
	}}
}
