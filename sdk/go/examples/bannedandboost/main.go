// Command bannedandboost is an example of a logits plugin. Parameters:
// {"ban": [token...], "boost": {token: bias}, "only": [token...]}.
//
// A token is written as its id or its text. As a member name in boost, "#17" is
// the token with id 17. ban denies tokens, only denies all others, boost adds a
// bias to the logit. The plugin uses the cheapest mode that is sufficient.
package main

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"tgi/sdk/go/logits"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "banned-and-boost", Version: "1.0.0", Doc: "Denies, requires or favours tokens.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"ban":{"type":"array","items":{"type":["integer","string"]}},` +
			`"only":{"type":"array","items":{"type":["integer","string"]}},` +
			`"boost":{"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}}}}`,
	})
	logits.Register(logits.Uses{Modes: []logits.Mode{logits.Allow, logits.Deny, logits.Sparse}}, open)
}

func main() {}

type lists struct{}

func open([]byte) (logits.Plugin, error) { return lists{}, nil }

// Begin implements logits.Plugin.
func (lists) Begin(raw []byte, _ []uint32) (logits.Processor, error) {
	var ban, only []uint32
	var boost []logits.Entry
	useOnly := false
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "ban":
			ban = tokens(r, key)
		case "only":
			useOnly, only = true, tokens(r, key)
		case "boost":
			boost = biases(r)
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return plan(ban, only, boost, useOnly)
}

func tokens(r *params.Reader, field string) (ids []uint32) {
	for range r.Array() {
		if r.Peek() == '"' {
			ids = append(ids, byText(r, field, r.String()))
		} else {
			ids = append(ids, known(r, field, r.Float()))
		}
	}
	return ids
}

func known(r *params.Reader, field string, id float64) uint32 {
	if id < 0 || id >= float64(plugin.VocabSize()) || id != math.Trunc(id) {
		r.Fail(field + ": no such token id")
		return 0
	}
	return uint32(id)
}

func byText(r *params.Reader, field, text string) uint32 {
	if r.Err() != nil {
		return 0
	}
	ids, ok := plugin.Encode(text)
	if !ok || len(ids) != 1 {
		r.Fail(field + ": want the text of one token, not " + text)
		return 0
	}
	return ids[0]
}

func biases(r *params.Reader) (entries []logits.Entry) {
	for key := range r.Object() {
		id := named(r, key)
		v := r.Float()
		if v < -100 || v > 100 {
			r.Fail("boost: want a bias from -100 to 100 for " + key)
		}
		entries = append(entries, logits.Entry{ID: id, Value: float32(v)})
	}
	return entries
}

func named(r *params.Reader, key string) uint32 {
	if digits, ok := strings.CutPrefix(key, "#"); ok {
		if id, err := strconv.ParseFloat(digits, 64); err == nil && strings.Trim(digits, "0123456789") == "" {
			return known(r, "boost", id)
		}
	}
	return byText(r, "boost", key)
}

// processor has the result of every step, which is computed once.
type processor struct {
	ids       []uint32
	entries   []logits.Entry
	bias, all bool
}

func plan(ban, only []uint32, boost []logits.Entry, useOnly bool) (logits.Processor, error) {
	p := &processor{bias: len(boost) > 0, all: useOnly}
	base, value := ban, float32(math.Inf(-1))
	if useOnly {
		base, value = only, 0
	}
	for _, id := range base {
		if useOnly && slices.Contains(ban, id) {
			continue
		}
		p.ids = append(p.ids, id)
		p.entries = append(p.entries, logits.Entry{ID: id, Value: value})
	}
	for _, e := range boost {
		if !slices.Contains(ban, e.ID) && (!useOnly || slices.Contains(only, e.ID)) {
			p.entries = append(p.entries, e)
		}
	}
	if useOnly && len(p.entries) == 0 {
		return nil, errors.New("only: every token of it is banned")
	}
	return p, nil
}

// Process implements logits.Processor.
func (p *processor) Process(s *logits.Step) error {
	switch {
	case p.bias:
		s.Bias(p.entries)
		if p.all {
			s.Only()
		}
	case p.all:
		s.Allow(p.ids)
	case len(p.ids) > 0:
		s.Deny(p.ids)
	}
	return nil
}
