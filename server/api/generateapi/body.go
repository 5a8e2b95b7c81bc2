package generateapi

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tgi/server/api/generateapi/store"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// request is a body of any of the routes.
type request struct {
	// ids and prompts belong together.
	ids, prompts []string
	// settings are the generation_config; given says that there was one with
	// anything in it.
	settings store.Settings
	given    bool
	// onlyNew leaves out what was known before; stream sends the text as it grows.
	onlyNew, stream bool
	// model is what the body names, "" for none.
	model string
	// explain is what it wants to know of its texts, seed what they are drawn with; nil for none.
	explain *generate.Explain
	seed    *uint64
	// unknown are members that mean nothing.
	unknown wire.Notes
}

// note notes those members of o that are not known; within is the member of the body that o is, "" for the body itself.
func (q *request) note(within string, o object, known ...string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, name) {
			q.unknown.Add(within, name)
		}
	}
}

// shared are the members of all bodies.
var shared = []string{"only_new_tokens", "stream_response", "generation_config", "explain", "seed", "model"}

// object is a JSON object, whose values are views of the body. As in Python, the last of equal keys counts.
type object map[string]json.RawMessage

// parse reads a body that must hold an object.
func parse(body []byte) (object, error) {
	if err := wire.Decode(body, (*wire.Reader).Skip); err != nil {
		return nil, errJSON
	}
	o := objectOf(body)
	if o == nil {
		return nil, errShape
	}
	return o, nil
}

// objectOf returns the object that a JSON value is; nil for another value.
func objectOf(raw []byte) object {
	o := object{}
	if wire.Decode(raw, func(r *wire.Reader) error {
		return r.Map("a map", func(name string) (err error) {
			o[name], err = r.Raw()
			return err
		})
	}) != nil {
		return nil
	}
	return o
}

// listOf returns the elements of the array that a JSON value is; none for another value.
func listOf(raw []byte) (list []json.RawMessage) {
	if wire.Decode(raw, func(r *wire.Reader) error {
		return r.Array(func(int) error {
			one, err := r.Raw()
			list = append(list, one)
			return err
		})
	}) != nil {
		return nil
	}
	return list
}

// readOne reads a body of generate-one.
func readOne(body []byte) (*request, error) {
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	q, err := o.common()
	if err != nil {
		return nil, err
	}
	if err := q.add(o); err != nil || q.prompts[0] == "" {
		return nil, errShape
	}
	q.note("", o, append(slices.Clip(shared), "request_id", "prompt")...)
	if e := q.explain; e != nil && (e.Tokens == nil || *e.Tokens > 0) {
		return nil, refused("`explain` of this route must be \"receipt\", which comes in the trailer %s: the reply is plain "+
			"text. /api/generate-batch explains tokens", receiptTrailer)
	}
	return q, nil
}

// readBatch reads a body of generate-batch, or a message of a socket.
func readBatch(body []byte, most int) (*request, error) {
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	q, err := o.common()
	if err != nil {
		return nil, err
	}
	prompts := listOf(o["prompts"])
	switch n := len(prompts); {
	case n == 0:
		return nil, errShape
	case n > most:
		return nil, refused("`prompts` must hold at most %d prompts (generate_api.max_prompts), given %d", most, n)
	}
	for _, raw := range prompts {
		one := objectOf(raw)
		if one == nil {
			return nil, errShape
		}
		if err := q.add(one); err != nil {
			return nil, err
		}
		q.note("prompts", one, "request_id", "prompt")
	}
	q.note("", o, append(slices.Clip(shared), "prompts")...)
	sorted := slices.Sorted(slices.Values(q.ids))
	if len(slices.Compact(sorted)) != len(q.ids) {
		return nil, errDuplicate
	}
	if q.explain != nil {
		tokens, err := q.explain.Share(len(q.ids), "texts")
		if err != nil {
			return nil, refused("%s", err)
		}
		q.explain = &generate.Explain{Top: q.explain.Top, Tokens: &tokens}
	}
	return q, nil
}

// common reads what all bodies have.
func (o object) common() (*request, error) {
	q := &request{onlyNew: o.truth("only_new_tokens"), stream: o.truth("stream_response")}
	switch raw := string(o["generation_config"]); raw {
	case "", "null", "false", "0", `""`, "[]", "{}": // what Python takes for nothing
	default:
		config := objectOf([]byte(raw))
		if config == nil || !config.settings(&q.settings) {
			return nil, errShape
		}
		q.given = len(config) > 0
		q.note("generation_config", config, "num_beams", "top_k", "max_new_tokens", "temperature", "top_p",
			"repetition_penalty", "length_penalty", "do_sample", "stream")
	}
	if raw := o["explain"]; raw != nil && wire.Decode(raw, fields.Explain(&q.explain).Read) != nil {
		return nil, refused("`explain` must be true, \"receipt\", or an object such as {\"top\": 5, \"tokens\": 256}. "+
			"Given: %.64s", raw)
	}
	if raw := o["seed"]; raw != nil && wire.Decode(raw, wire.Optional(&q.seed, fields.Seed)) != nil {
		return nil, refused("`seed` must be an integer of 64 bits. Given: %.64s", raw)
	}
	if string(o["model"]) != "null" {
		var ok bool
		if q.model, ok = o.text("model", ""); !ok {
			return nil, errShape
		}
	}
	return q, nil
}

// add reads a prompt with its id. One that is absent is a space, by which clients
// continue.
func (q *request) add(o object) error {
	id, ok := o.text("request_id", "")
	if !ok || id == "" {
		return errShape
	}
	prompt, ok := o.text("prompt", " ")
	if !ok {
		return errShape
	}
	q.ids, q.prompts = append(q.ids, id), append(q.prompts, prompt)
	return nil
}

// text returns a string; ok is false for a value of another type.
func (o object) text(name, absent string) (s string, ok bool) {
	raw := o[name]
	switch {
	case raw == nil:
		return absent, true
	case raw[0] != '"':
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// truth returns a boolean that is true when it is absent or of another type.
func (o object) truth(name string) bool { return string(o[name]) != "false" }

// settings reads a generation_config, and says whether every value has its type.
func (o object) settings(s *store.Settings) bool {
	ok := true
	for name, into := range map[string]**int64{"num_beams": &s.NumBeams, "top_k": &s.TopK,
		"max_new_tokens": &s.MaxNewTokens} {
		if raw := string(o[name]); raw != "" {
			n, whole := integer(raw)
			*into, ok = &n, ok && whole
		}
	}
	for name, into := range map[string]**float64{
		"temperature": &s.Temperature, "top_p": &s.TopP, "repetition_penalty": &s.RepetitionPenalty,
		"length_penalty": &s.LengthPenalty,
	} {
		if raw := string(o[name]); raw != "" {
			f, err := strconv.ParseFloat(raw, 64)
			*into, ok = &f, ok && numeric(raw) && (err == nil || math.IsInf(f, 0))
		}
	}
	for name, into := range map[string]**bool{"do_sample": &s.DoSample, "stream": nil} {
		raw := string(o[name])
		on := raw == "true"
		ok = ok && (raw == "" || on || raw == "false")
		if raw != "" && into != nil {
			*into = &on
		}
	}
	return ok
}

// numeric reports whether a JSON value is a number.
func numeric(raw string) bool { return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9' }

// integer reads a number that is written as an integer. One past 64 bits becomes
// the last of them, which is past every bound too.
func integer(raw string) (n int64, ok bool) {
	if !numeric(raw) || strings.ContainsAny(raw, ".eE") {
		return 0, false
	}
	n, _ = strconv.ParseInt(raw, 10, 64)
	return n, true
}
