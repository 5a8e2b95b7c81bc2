package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	kit "tgi/conformance/guest"
	"tgi/plugins/grammar"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// Grammar is a source that a guest of kind grammar is measured or checked with.
type Grammar = kit.Source

// benchGrammars are the default sources of a measurement, in the standard languages.
var benchGrammars = []Grammar{
	{Language: "json_schema",
		Text: `{"type":"object","properties":{"name":{"type":"string"},"place":{"enum":["here","there"]},"count":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},"required":["name","place"],"additionalProperties":false}`},
	{Language: "json_object", Text: ""},
	{Language: "regex", Text: `[A-Z][a-z]+( [A-Z][a-z]+)*, [0-9]{1,3}`},
	{Language: "choice", Text: `["yes","no","perhaps"]`},
	{Language: "gbnf", Text: "root ::= \"(\" root \")\" | [a-z]+\n"},
	{Language: "lark", Text: "start: \"(\" start \")\" | /[a-z]+/\n"},
}

// benchCompiles is how often a source is compiled.
const benchCompiles = 50

// sources returns the given sources, or the default ones in the guest's languages.
func (r *running) sources() ([]Grammar, error) {
	languages := r.g.Description().Languages
	if len(r.o.Grammars) > 0 {
		return r.o.Grammars, checkLanguages(r.o.Grammars, languages)
	}
	list := slices.DeleteFunc(slices.Clone(benchGrammars),
		func(g Grammar) bool { return !slices.Contains(languages, g.Language) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no source is known in its languages %q: give a language and a source", languages)
	}
	return list, nil
}

// grammars measures each source: its compilation, and texts that are held to it.
func (r *running) grammars(ctx context.Context, steps int) error {
	list, err := r.sources()
	if err != nil {
		return err
	}
	if err := r.measure(func() error { return r.g.Validate(nil, r.params) }, always("validate")); err != nil {
		return err
	}
	for _, g := range list {
		call := kind.Call{Language: g.Language, Source: []byte(g.Text), Params: r.params}
		if r.g.Description().Steps() {
			err = r.followed(ctx, call, steps)
		} else {
			err = r.compiled(ctx, call, steps)
		}
		var no *guest.Refusal
		if errors.As(err, &no) {
			return fmt.Errorf("%s: it refuses the source: %s", g.Language, no.Text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.Language, err)
		}
	}
	return nil
}

// follower is the state of one text in a grammar.
type follower interface {
	mask(bits []uint32) (constrained bool, err error)
	accept(token uint32) error
}

// native is one that the host follows.
type native struct{ *grammar.State }

func (n native) mask(bits []uint32) (bool, error) { return true, n.Mask(bits) }
func (n native) accept(token uint32) error        { return n.Accept(token) }

// stepped is one that the guest follows.
type stepped struct{ *kind.Stepper }

func (s stepped) mask(bits []uint32) (bool, error) { return s.Mask(bits) }
func (s stepped) accept(token uint32) error        { return s.Accept(token) }

// compiled measures a guest that compiles, and what the host does with the result.
func (r *running) compiled(ctx context.Context, call kind.Call, steps int) error {
	vocab := grammar.NewVocab(r.vocab, 0)
	var made *grammar.Grammar
	for range benchCompiles {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s, err := r.g.Open(r.o.Seed, nil)
		if err != nil {
			return err
		}
		memory := len(s.Memory())
		var form kind.Compiled
		err = r.measure(func() error {
			form, err = kind.Compile(s, call)
			return err
		}, always(call.Language+": compile"))
		r.run.Memory, r.run.Grown = max(r.run.Memory, memory), max(r.run.Grown, len(s.Memory())-memory)
		r.end(s)
		if err == nil {
			err = r.measure(func() error {
				made, err = vocab.Compile(ctx, form.Grammar, grammar.Limits{})
				return err
			}, always(call.Language+": prepare by the host"))
		}
		if err != nil {
			return err
		}
	}
	return r.walk(ctx, call.Language, " by the host", steps, func() (follower, func(), error) {
		return native{made.Start()}, func() {}, nil
	})
}

// followed measures a guest that computes masks.
func (r *running) followed(ctx context.Context, call kind.Call, steps int) error {
	masks := keyed{}
	return r.walk(ctx, call.Language, "", steps, func() (follower, func(), error) {
		s, err := r.g.Open(r.o.Seed, nil)
		if err != nil {
			return nil, nil, err
		}
		memory := len(s.Memory())
		end := func() {
			r.run.Memory, r.run.Grown = max(r.run.Memory, memory), max(r.run.Grown, len(s.Memory())-memory)
			r.end(s)
		}
		var p *kind.Stepper
		err = r.measure(func() error {
			p, err = kind.Begin(s, call, masks)
			return err
		}, always(call.Language+": begin of a text"))
		if err != nil {
			end()
			return nil, nil, err
		}
		return stepped{p}, end, nil
	})
}

// keyed remembers masks by their keys, as a server does. It implements kind.Masks.
type keyed map[uint64][]uint32

// Get implements kind.Masks.
func (k keyed) Get(key uint64) []uint32 { return k[key] }

// Put implements kind.Masks.
func (k keyed) Put(key uint64, words []uint32) { k[key] = words }

// walk measures steps of texts that begin makes, which go on by likely tokens that the mask allows, until none but the
// end is left or the text is long.
func (r *running) walk(ctx context.Context, language, by string, steps int,
	begin func() (follower, func(), error)) error {
	bits := make([]uint32, abi.MaskWords(uint32(r.o.Vocabulary)))
	var spent time.Duration
	for done := 0; done < steps; {
		f, end, err := begin()
		if err != nil {
			return err
		}
		for n := 0; n < benchSequence && done < steps && err == nil; n++ {
			if err = ctx.Err(); err != nil {
				break
			}
			began := time.Now()
			var constrained bool
			err = r.measure(func() (err error) { constrained, err = f.mask(bits); return err },
				always(language+": mask"+by))
			spent += time.Since(began)
			if err != nil {
				break
			}
			done++
			token, ok := r.pick(n, bits, constrained)
			if !ok {
				break
			}
			began = time.Now()
			err = r.measure(func() error { return f.accept(token) }, always(language+": accept"+by))
			spent += time.Since(began)
		}
		end()
		if err != nil {
			return fmt.Errorf("step %d: %w", done, err)
		}
	}
	r.run.Masks = append(r.run.Masks, MaskRate{Language: language, PerSecond: float64(steps) / spent.Seconds()})
	return nil
}

// pick is a likely token of those that a mask allows; false where none but special ones are left.
func (r *running) pick(step int, bits []uint32, constrained bool) (token uint32, ok bool) {
	r.rows.fill(step, r.row)
	for id := range r.row {
		switch allowed := !constrained || bits[id/32]>>(id%32)&1 != 0; {
		case !allowed:
			r.row[id] = float32(math.Inf(-1))
		case r.vocab.Flags(uint32(id)) == 0:
			ok = true
		}
	}
	return r.rows.draw(step, r.row), ok
}
