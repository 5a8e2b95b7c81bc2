package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// Unsupported is about a field that asks for what this server has not.
func Unsupported(field string) error {
	return &generate.Invalid{Msg: "`" + field + "` is not supported", Field: field}
}

// Flag returns a Field.Read of a boolean; null is false.
func Flag(dst *bool) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return wire.Into(dst, (*wire.Reader).Bool)(r)
	}
}

// Seed reads any 64-bit seed, and the negative ones of 32 bits that OpenAI's
// signed type allows.
func Seed(r *wire.Reader) (n uint64, err error) {
	err = Either(r, wire.Into(&n, (*wire.Reader).Uint64), func(r *wire.Reader) error {
		i, err := r.Int32()
		n = uint64(int64(i))
		return err
	})
	return n, err
}

// Stops returns a Field.Read of one stop string, several or null.
func Stops(dst *[]string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return Either(r, wire.Into(dst, (*wire.Reader).Strings), func(r *wire.Reader) error {
			s, err := r.String()
			*dst = []string{s}
			return err
		})
	}
}

// Bias returns a Field.Read of OpenAI's map of token ids, null, or the empty list of clients that
// know TGI's type for it.
func Bias(dst *map[uint32]float32) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		return Either(r, LogitBias(dst), func(r *wire.Reader) error {
			return r.Array(func(int) error {
				return r.Refuse("invalid type: sequence, expected a map from token ids to numbers")
			})
		})
	}
}

// Unset returns a Field.Read of a field that would change what is generated and is not supported:
// only a value that asks for nothing is taken.
func Unset(name string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		start := *r
		if err := r.Skip(); err != nil {
			return err
		}
		none := errors.New("not empty")
		for _, read := range []func(*wire.Reader) error{
			func(r *wire.Reader) error {
				if null, _ := r.Null(); !null {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error {
				if v, err := r.Bool(); err != nil || v {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error {
				if v, err := r.Float32(); err != nil || v != 0 {
					return none
				}
				return nil
			},
			func(r *wire.Reader) error { return r.Array(func(int) error { return none }) },
			func(r *wire.Reader) error { return r.Map("a map", func(string) error { return none }) },
		} {
			probe := start
			if read(&probe) == nil {
				return nil
			}
		}
		return Unsupported(name)
	}
}

// Either reads a value that may have one of several shapes. Where none fits, the
// error is that of the shape which fitted longest.
func Either(r *wire.Reader, shapes ...func(*wire.Reader) error) error {
	start := *r
	var furthest *wire.Error
	for _, read := range shapes {
		*r = start
		err := read(r)
		var e *wire.Error
		if !errors.As(err, &e) || errors.Is(err, wire.ErrSyntax) {
			return err
		}
		if furthest == nil || e.Line > furthest.Line || e.Line == furthest.Line && e.Column > furthest.Column {
			furthest = e
		}
	}
	return furthest
}

// OneOf is Either where an error about the whole value says which shapes there are: want names them all.
func OneOf(r *wire.Reader, want string, shapes ...func(*wire.Reader) error) error {
	if null, err := r.Null(); err != nil {
		return err
	} else if null { // which no shape names
		return r.Refuse("invalid value: null, expected " + want)
	}
	start := *r
	err := Either(r, shapes...)
	var e, here *wire.Error
	if !errors.As(err, &e) || e.Kind != wire.ErrShape || e.Path != "" {
		return err
	}
	*r = start
	_, _ = r.Null() // passes white space alone: a null is read before
	_ = errors.As(r.Refuse(""), &here)
	raw, broken := r.Raw()
	if within := e.Line != here.Line || e.Column != here.Column; broken != nil || within && (raw[0] == '{' ||
		raw[0] == '[') {
		return err
	}
	given := strings.ToValidUTF8(string(raw[:min(len(raw), 64)]), "")
	return r.Refuse(fmt.Sprintf("invalid value: %s, expected %s", given, want))
}

// Text returns a Field.Read of a string; null is none.
func Text(dst *string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return wire.Into(dst, (*wire.Reader).String)(r)
	}
}

// Word returns a Field.Read of one of several words; null and "" are none.
func Word(dst *string, words ...string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if err := Text(dst)(r); err != nil || *dst == "" {
			return err
		}
		return isOne(r, *dst, words)
	}
}

// Given returns a Field.Read of one of several words, which has to be there.
func Given(dst *string, words ...string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if err := wire.Into(dst, (*wire.Reader).String)(r); err != nil {
			return err
		}
		return isOne(r, *dst, words)
	}
}

func isOne(r *wire.Reader, word string, words []string) error {
	if slices.Contains(words, word) {
		return nil
	}
	return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected one of `%s`", word, strings.Join(words, "`, `")))
}
