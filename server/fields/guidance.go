package fields

import (
	"tgi/server/generate"
	"tgi/server/wire"
)

// Messages reads a conversation.
type Messages func(*wire.Reader) ([]generate.Message, error)

// Guidance are the fields of a second prompt: transformers' guidance_scale, with its negative prompt as a text, and
// contrastive. messages reads a conversation, on the routes that have some; it is nil on others.
func Guidance(g *generate.Guidance, messages Messages) []wire.Field {
	list := []wire.Field{
		{Name: "guidance_scale", Read: wire.Optional(&g.Scale, (*wire.Reader).Float32)},
		{Name: "negative_prompt", Read: wire.Optional(&g.Negative.Text, (*wire.Reader).String)},
		{Name: "contrastive", Read: contrast(&g.Contrast, messages)},
	}
	if messages != nil {
		list = append(list, wire.Field{Name: "negative_messages", Read: conversation(&g.Negative.Messages, messages)})
	}
	return list
}

// contrast reads contrastive, or null.
func contrast(dst **generate.Contrast, messages Messages) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		c := &generate.Contrast{}
		*dst = c
		list := []wire.Field{
			{Name: "prompt", Read: wire.Optional(&c.Other.Text, (*wire.Reader).String)},
			{Name: "beta", Read: wire.Optional(&c.Beta, (*wire.Reader).Float32)},
			{Name: "alpha", Read: wire.Optional(&c.Alpha, (*wire.Reader).Float32)},
		}
		if messages != nil {
			list = append(list, wire.Field{Name: "messages", Read: conversation(&c.Other.Messages, messages)})
		}
		return r.StrictObject("an object such as {\"prompt\": \"\", \"beta\": 0.5, \"alpha\": 0.1}", list)
	}
}

// conversation reads messages, of which there is at least one, or null.
func conversation(dst *[]generate.Message, messages Messages) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		list, err := messages(r)
		if err == nil && len(list) == 0 {
			return r.Refuse("invalid length 0, expected at least one message")
		}
		*dst = list
		return err
	}
}
