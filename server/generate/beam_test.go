package generate_test

import (
	"errors"
	"math"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func TestBeamRefusals(t *testing.T) {
	two, inf := ptr(uint64(2)), float32(math.Inf(1))
	for _, c := range []struct {
		want string
		d    generate.Draft
	}{
		{"`num_beams` must be >= 1 and <= 8. Given: 0", generate.Draft{NumBeams: ptr(uint64(0))}},
		{"`num_beams` must be >= 1 and <= 8. Given: 9", generate.Draft{NumBeams: ptr(uint64(9))}},
		{"`num_beams` must be >= 1 and <= 8. Given: 18446744073709551615",
			generate.Draft{NumBeams: ptr(uint64(math.MaxUint64)), Rules: generate.OpenAI}},
		{"`best_of` > 1 and `num_beams` > 1 exclude each other", generate.Draft{NumBeams: two, BestOf: two,
			DoSample: true}},
		{"`n` must be <= `num_beams` (2). Given: 3", generate.Draft{NumBeams: two, N: ptr(uint64(3)),
			Rules: generate.OpenAI}},
		{"`length_penalty` must be a finite number. Given: +Inf", generate.Draft{NumBeams: two, LengthPenalty: &inf}},
	} {
		c.d.Inputs = "a"
		var invalid *generate.Invalid
		if _, err := check(c.d); !errors.As(err, &invalid) || invalid.Msg != c.want || invalid.Field == "" {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

// TestBeams: a search is one sequence of user code for the engine, takes a permit for
// each beam, and has as many results as were asked for.
func TestBeams(t *testing.T) {
	for name, c := range map[string]struct {
		d            generate.Draft
		beams, wants int
		penalty      float32
		sample       bool
	}{
		"TGI": {generate.Draft{NumBeams: ptr(uint64(4))}, 4, 1, 1, false},
		"TGI, drawn": {generate.Draft{NumBeams: ptr(uint64(4)), DoSample: true,
			LengthPenalty: ptr(float32(0.5))}, 4, 1, 0.5, true},
		"OpenAI's draw by default": {generate.Draft{NumBeams: ptr(uint64(3)), N: ptr(uint64(2)),
			Rules: generate.OpenAI}, 3, 2, 1, false},
		"OpenAI, drawn": {generate.Draft{NumBeams: ptr(uint64(3)), Temperature: ptr(float32(1)),
			Rules: generate.OpenAI}, 3, 1, 1, true},
		"one beam is none": {generate.Draft{NumBeams: ptr(uint64(1))}, 0, 1, 0, false},
		"OpenAI's frequency penalty": {generate.Draft{NumBeams: ptr(uint64(2)), FrequencyPenalty: ptr(float32(1)),
			Rules: generate.OpenAI}, 2, 1, 1, false},
	} {
		l := generatetest.Limits()
		l.MaxConcurrent = 8
		e := &generatetest.Engine{}
		s := generate.New(e, generatetest.Words{}, l, nil)
		c.d.Inputs = "a"
		run, err := s.Start(t.Context(), c.d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := e.Requests()[0]
		p := r.Params
		if p.NumBeams != c.beams || c.beams > 0 && p.NumReturn != c.wants || p.LengthPenalty != c.penalty ||
			p.Sample != c.sample || run.Request.Sequences != c.wants {
			t.Errorf("%s: %+v, %d sequences", name, p, run.Request.Sequences)
		}
		if c.beams > 0 && r.N != 1 {
			t.Errorf("%s: the engine is asked for %d", name, r.N)
		}
		var others []*generate.Run
		for {
			one, err := s.Start(t.Context(), generate.Draft{Inputs: "a"})
			if err != nil {
				break
			}
			others = append(others, one)
		}
		if left := 8 - max(c.beams, 1); len(others) != left {
			t.Errorf("%s: %d permits were left, want %d", name, len(others), left)
		}
		for _, one := range others {
			one.Close()
		}
		run.Close()
		if all, err := s.Start(t.Context(), generate.Draft{Inputs: "a", NumBeams: ptr(uint64(4))}); err != nil {
			t.Errorf("%s: the permits did not come back: %v", name, err)
		} else {
			all.Close()
		}
	}
}

// TestCountPenaltyForks: a beam's copy of OpenAI's penalty counts for itself.
func TestCountPenaltyForks(t *testing.T) {
	e := &generatetest.Engine{}
	d := generate.Draft{Rules: generate.OpenAI, Inputs: "x", NumBeams: ptr(uint64(2)),
		FrequencyPenalty: ptr(float32(1))}
	run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	one := e.Requests()[0].Plugins(0)
	row := func(p sample.Plugins, output ...llm.Token) []float32 {
		s := &sample.Step{Logits: make([]float32, 3)}
		if err := p.Processors[0].Process(sample.History{Output: output}, s); err != nil {
			t.Fatal(err)
		}
		return s.Logits
	}
	row(one, 1)
	two, err := one.Fork()
	if err != nil {
		t.Fatal(err)
	}
	if x := row(one, 1, 1); x[1] != -2 || x[2] != 0 {
		t.Errorf("the first: %v", x)
	}
	if x := row(two, 1, 2); x[1] != -1 || x[2] != -1 {
		t.Errorf("the fork: %v", x)
	}
}
