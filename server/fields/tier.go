package fields

import (
	"tgi/server/generate"
	"tgi/server/wire"
)

// Tier returns a Field.Read of OpenAI's service_tier; null is none. auto is what requests without one get, and scale,
// which needs a contract with OpenAI, is the same.
func Tier(dst *generate.Tier) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		var word string
		err := Word(&word, "auto", "default", "flex", "priority", "scale")(r)
		switch word {
		case "":
		case "flex", "priority":
			*dst = generate.Tier(word)
		default:
			*dst = generate.TierDefault
		}
		return err
	}
}

// Priority returns a Field.Read of vLLM's priority: less goes first; null is 0.
func Priority(dst *int) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		n, err := r.Int32()
		*dst = int(n)
		return err
	}
}
