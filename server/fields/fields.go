// Package fields owns the readers of request fields that TGI's and OpenAI's
// routes share: one meaning and one set of error texts for both.
package fields

import (
	"strconv"

	"tgi/server/generate"
	"tgi/server/wire"
)

// LogitBias returns a Field.Read of an object from token ids to addends, or null.
func LogitBias(dst *map[uint32]float32) func(*wire.Reader) error {
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

// Plugins returns a Field.Read of an array of plugins to use, or null. Their
// parameters stay as they were written, views of the body: only the plugin
// knows what they mean.
func Plugins(dst *[]generate.PluginCall) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Array(func(int) error {
			var c generate.PluginCall
			err := r.StrictObject("an object such as {\"name\": \"banned-words\", \"params\": {}}", []wire.Field{
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
