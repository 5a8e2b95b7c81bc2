package ollama

import (
	"fmt"
	"math"
	"time"

	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Defaults of Ollama's options, api.DefaultOptions: a client that says nothing expects these.
const (
	defaultTemperature = 0.8
	defaultTopP        = 0.9
	defaultTopK        = 40
)

// options are the member of that name.
type options struct {
	draft *generate.Draft
	// predict is num_predict: less than 1 is no bound. window is repeat_last_n.
	predict, window *int32
	// ignored are those that mean nothing here.
	ignored []string
}

// read reads options, or null. Those that this server does not know are passed over, as Ollama does, and named.
func (o *options) read(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	d := o.draft
	known := map[string]func(*wire.Reader) error{
		"num_predict": wire.Optional(&o.predict, integer), "repeat_last_n": wire.Optional(&o.window, integer),
		"temperature": wire.Optional(&d.Temperature, (*wire.Reader).Float32),
		"top_k":       wire.Optional(&d.TopK, integer), "top_p": wire.Optional(&d.TopP, (*wire.Reader).Float32),
		"min_p":             wire.Optional(&d.MinP, (*wire.Reader).Float32),
		"typical_p":         wire.Optional(&d.TypicalP, (*wire.Reader).Float32),
		"repeat_penalty":    wire.Optional(&d.RepetitionPenalty, (*wire.Reader).Float32),
		"presence_penalty":  wire.Optional(&d.PresencePenalty, (*wire.Reader).Float32),
		"frequency_penalty": wire.Optional(&d.FrequencyPenalty, (*wire.Reader).Float32),
		"seed":              o.readSeed, "stop": fields.Stops(&d.Stop),
	}
	return r.Map("a map", func(name string) error {
		if read, ok := known[name]; ok {
			return read(r)
		}
		o.ignore("options." + name)
		return r.Skip()
	})
}

// integer reads an integer, which some clients write with a point.
func integer(r *wire.Reader) (n int32, err error) {
	err = fields.Either(r, wire.Into(&n, (*wire.Reader).Int32), func(r *wire.Reader) error {
		start := *r
		f, err := r.Float32()
		if err == nil && (float64(f) != math.Trunc(float64(f)) || math.Abs(float64(f)) > math.MaxInt32) {
			*r = start
			_, err = r.Int32()
		}
		n = int32(f)
		return err
	})
	return n, err
}

// readSeed reads a seed. -1, Ollama's default, draws one.
func (o *options) readSeed(r *wire.Reader) error {
	var seed *uint64
	if err := wire.Optional(&seed, fields.Seed)(r); err != nil {
		return err
	}
	if seed != nil && *seed != math.MaxUint64 {
		o.draft.Seed = seed
	}
	return nil
}

// maxIgnored and maxName bound what a reply says of members that were passed over.
const (
	maxIgnored = 16
	maxName    = 64
)

// ignore notes a member that means nothing here.
func (o *options) ignore(name string) {
	if len(o.ignored) < maxIgnored && len(name) <= maxName {
		o.ignored = append(o.ignored, name)
	}
}

// finish gives the draft what options say, and Ollama's defaults.
func (o *options) finish() {
	d := o.draft
	if o.predict != nil && *o.predict > 0 {
		most := uint32(*o.predict)
		d.MaxNewTokens = &most
	}
	switch {
	case o.window == nil, *o.window == -1: // all that was read and written
	case *o.window == 0:
		d.RepetitionPenalty = nil
	default:
		o.ignore("options.repeat_last_n")
	}
	orElse(&d.Temperature, defaultTemperature)
	orElse(&d.TopP, defaultTopP)
	orElse(&d.TopK, defaultTopK)
	if *d.TopK < 0 {
		*d.TopK = 0 // all tokens
	}
	d.Rules, d.Clip, d.LengthField = generate.OpenAI, true, "options.num_predict"
}

func orElse[T any](p **T, otherwise T) {
	if *p == nil {
		*p = &otherwise
	}
}

// forEver is what keep_alive less than 0 means.
const forEver = time.Duration(-1)

// maxKeep bounds keep_alive: what is longer is for ever.
const maxKeep = 100 * 365 * 24 * time.Hour

// readKeepAlive reads a number of seconds, a duration such as "5m", or null.
func readKeepAlive(dst **time.Duration) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		d := forEver
		if isText(r) {
			s, err := r.String()
			if err != nil {
				return err
			}
			given, err := time.ParseDuration(s)
			if err != nil {
				return r.Refuse(fmt.Sprintf("invalid value: string %.64q, expected a number of seconds, or a duration such as "+
					"\"5m\"", s))
			}
			if given >= 0 && given <= maxKeep {
				d = given
			}
		} else {
			seconds, err := r.Float32()
			if err != nil {
				return err
			}
			if seconds >= 0 && float64(seconds) <= maxKeep.Seconds() {
				d = time.Duration(float64(seconds) * float64(time.Second))
			}
		}
		*dst = &d
		return nil
	}
}
