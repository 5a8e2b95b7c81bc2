package program

import (
	"slices"
	"strconv"

	"tgi/sdk/go/internal/registry"
)

// Settings are those of a run; what they do not set is as the request says. The methods return their receiver.
type Settings struct{ members, plugins []byte }

// Grammar is what a run, or a text, is held to. One without a language and a source is that of the request, if it has
// one.
type Grammar struct {
	// Language of Source: "json_schema", "json_object", "regex" and others.
	Language, Source string
	// Plugin compiles it; empty for the first that knows Language. Params are its parameters, a JSON object or nil.
	Plugin string
	Params []byte
}

func (g Grammar) append(b []byte) []byte {
	if g.Language == "" && g.Source == "" {
		return b
	}
	b = registry.AppendString(append(b, `{"language":`...), g.Language)
	b = registry.AppendString(append(b, `,"source":`...), g.Source)
	if g.Plugin != "" {
		b = registry.AppendString(append(b, `,"plugin":`...), g.Plugin)
	}
	if len(g.Params) > 0 {
		b = append(append(b, `,"params":`...), g.Params...)
	}
	return append(b, '}')
}

// With returns empty settings, for a chain of calls.
func With() *Settings { return &Settings{} }

// MaxTokens bounds the tokens of the run.
func (s *Settings) MaxTokens(n int) *Settings {
	return s.raw("max_tokens", strconv.AppendInt(nil, int64(n), 10))
}

// Temperature divides the logits; 0 takes the most likely token.
func (s *Settings) Temperature(t float64) *Settings { return s.float("temperature", t) }

// TopP keeps the smallest set of tokens with at least that probability.
func (s *Settings) TopP(p float64) *Settings { return s.float("top_p", p) }

// MinP keeps tokens at least that times as likely as the likeliest.
func (s *Settings) MinP(p float64) *Settings { return s.float("min_p", p) }

// TopK keeps that many of the likeliest tokens; 0 keeps all.
func (s *Settings) TopK(k int) *Settings { return s.raw("top_k", strconv.AppendInt(nil, int64(k), 10)) }

// Stop sets texts that end the run. They are part of the context.
func (s *Settings) Stop(texts ...string) *Settings {
	b := []byte{'['}
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = registry.AppendString(b, t)
	}
	return s.raw("stop", append(b, ']'))
}

// Grammar holds the run to a grammar, which the tokens from a place on have already begun; a negative place is the
// context's end.
func (s *Settings) Grammar(g Grammar, from int) *Settings {
	if own := g.append(nil); len(own) > 0 {
		s.raw("grammar", own)
	}
	if from < 0 {
		return s
	}
	return s.raw("grammar_from", strconv.AppendInt(nil, int64(from), 10))
}

// Free holds the run to no grammar, also if the request has one.
func (s *Settings) Free() *Settings { return s.raw("grammar", []byte("null")) }

// Plugin adds a plugin of the run; the first one takes the place of all of the request. params are a JSON object, or
// nil.
func (s *Settings) Plugin(name string, params []byte) *Settings {
	if len(s.plugins) > 0 {
		s.plugins = append(s.plugins, ',')
	}
	s.plugins = registry.AppendString(append(s.plugins, `{"name":`...), name)
	if len(params) > 0 {
		s.plugins = append(append(s.plugins, `,"params":`...), params...)
	}
	s.plugins = append(s.plugins, '}')
	return s
}

// Deny keeps tokens from being the first one of the run, at most [abi.MaxDenied] of them. The run takes one of the
// others, as grammar, plugins and settings say, and ends with [Denied] where there is none.
func (s *Settings) Deny(tokens ...uint32) *Settings {
	b := []byte{'['}
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(t), 10)
	}
	return s.raw("deny", append(b, ']'))
}

// Emit gives the client each token as soon as it is there.
func (s *Settings) Emit() *Settings { return s.raw("emit", []byte("true")) }

// clone returns a copy; of nil, empty settings.
func (s *Settings) clone() *Settings {
	if s == nil {
		return With()
	}
	return &Settings{slices.Clone(s.members), slices.Clone(s.plugins)}
}

func (s *Settings) float(name string, v float64) *Settings {
	return s.raw(name, strconv.AppendFloat(nil, v, 'g', -1, 32))
}

func (s *Settings) raw(name string, value []byte) *Settings {
	if len(s.members) > 0 {
		s.members = append(s.members, ',')
	}
	s.members = append(registry.AppendString(s.members, name), ':')
	s.members = append(s.members, value...)
	return s
}

// json returns the settings as ctx_start reads them; empty for none.
func (s *Settings) json() string {
	switch {
	case s == nil || len(s.members)+len(s.plugins) == 0:
		return ""
	case len(s.plugins) == 0:
		return "{" + string(s.members) + "}"
	}
	members := string(s.members)
	if members != "" {
		members += ","
	}
	return "{" + members + `"plugins":[` + string(s.plugins) + "]}"
}
