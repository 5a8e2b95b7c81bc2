package fields

import (
	"slices"

	"tgi/server/generate"
	"tgi/server/wire"
)

// idle are members of OpenAI's requests that ask for nothing of a server that keeps no accounts and has one tier: they
// may be there.
var idle = []string{"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
	"prompt_cache_retention", "prompt_cache_options", "stream_options.include_obfuscation"}

// Decode reads the body of a request, an object with fields that want names in errors, and notes in d which members
// mean nothing.
func Decode(text []byte, want string, list []wire.Field, d *generate.Draft) error {
	unknown, err := wire.DecodeNoting(text, want, list)
	d.Unknown = Unknown(unknown)
	return err
}

// Unknown returns those of the members that a route does not know which mean nothing, nil for none.
func Unknown(names []string) (unknown []string) {
	for _, name := range names {
		if !slices.Contains(idle, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
