package texts

import (
	"strings"

	"tgi/runtime/llm"
	"tgi/server/embeddings"
	"tgi/server/fields"
	"tgi/server/wire"
)

// common are fields that several routes have.
type common struct {
	model      *string
	options    embeddings.Options
	dimensions *uint64
	truncate   *bool
	most       *int32
	prompt     *string
	direction  *string
	rawScores  bool
	normalize  *bool
}

// fields of the routes of TEI.
func (c *common) fields() []wire.Field {
	return []wire.Field{
		{Name: "model", Read: wire.Optional(&c.model, (*wire.Reader).String)},
		{Name: "truncate", Read: wire.Optional(&c.truncate, (*wire.Reader).Bool)},
		{Name: "truncation_direction", Read: wire.Optional(&c.direction, (*wire.Reader).String)},
		{Name: "prompt_name", Read: wire.Optional(&c.prompt, (*wire.Reader).String)},
		{Name: "dimensions", Read: wire.Optional(&c.dimensions, (*wire.Reader).Usize)},
		{Name: "normalize", Read: wire.Optional(&c.normalize, (*wire.Reader).Bool)},
		{Name: "raw_scores", Read: fields.Flag(&c.rawScores)},
	}
}

// finish makes the options of what was read. field is what requests call the texts.
func (c *common) finish(field string) error {
	c.options = embeddings.Options{Truncate: c.truncate, Prompt: c.prompt, Field: field}
	if c.direction != nil {
		switch strings.ToLower(*c.direction) {
		case "left":
			c.options.Left = true
		case "right":
		default:
			return invalid("truncation_direction", "`truncation_direction` must be Left or Right. Given: %.32q", *c.direction)
		}
	}
	if c.most != nil {
		switch n := *c.most; {
		case n == -1:
			cut := true
			c.options.Truncate = &cut
		case n < 1:
			return invalid("truncate_prompt_tokens", "`truncate_prompt_tokens` must be positive, or -1. Given: %d", n)
		default:
			c.options.Most = int(n)
		}
	}
	return nil
}

// batch is one text or several, and which of it was given.
type batch struct {
	inputs []embeddings.Input
	single bool
}

// read reads a text, a list of texts, the tokens of a text, or a list of these.
func (b *batch) read(r *wire.Reader) error {
	one := func(in embeddings.Input, err error) error {
		b.inputs, b.single = append(b.inputs[:0], in), true
		return err
	}
	list := func(elem func(r *wire.Reader) (embeddings.Input, error)) func(r *wire.Reader) error {
		return func(r *wire.Reader) error {
			b.inputs, b.single = b.inputs[:0], false
			return r.Array(func(int) error {
				in, err := elem(r)
				b.inputs = append(b.inputs, in)
				return err
			})
		}
	}
	return fields.Either(r,
		func(r *wire.Reader) error { return one(text(r)) }, list(text),
		func(r *wire.Reader) error { return one(ids(r)) }, list(ids))
}

func text(r *wire.Reader) (embeddings.Input, error) {
	s, err := r.String()
	return embeddings.Input{Text: s}, err
}

// ids reads a list of token ids.
func ids(r *wire.Reader) (embeddings.Input, error) {
	list := []llm.Token{}
	err := r.Array(func(int) error {
		id, err := r.Uint32()
		list = append(list, id)
		return err
	})
	return embeddings.Input{Tokens: list}, err
}

// readPairs reads a text, a pair of texts, or a list of lists of one or two texts.
func (b *batch) readPairs(r *wire.Reader) error {
	sides := func(r *wire.Reader) (embeddings.Input, error) {
		list, err := r.Strings()
		switch {
		case err != nil:
			return embeddings.Input{}, err
		case len(list) == 1:
			return embeddings.Input{Text: list[0]}, nil
		case len(list) == 2:
			return embeddings.Input{Text: list[0], Pair: &list[1]}, nil
		}
		return embeddings.Input{}, r.Refuse("invalid length, expected one text or a pair of texts")
	}
	return fields.Either(r,
		func(r *wire.Reader) error {
			in, err := text(r)
			b.inputs, b.single = []embeddings.Input{in}, true
			return err
		},
		func(r *wire.Reader) error {
			in, err := sides(r)
			b.inputs, b.single = []embeddings.Input{in}, true
			return err
		},
		func(r *wire.Reader) error {
			b.inputs, b.single = b.inputs[:0], false
			return r.Array(func(int) error {
				in, err := sides(r)
				b.inputs = append(b.inputs, in)
				return err
			})
		})
}
