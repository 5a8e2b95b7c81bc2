package generate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func ptr[T any](v T) *T { return &v }

// refusals lists drafts with the text that refuses them. Each draft also breaks
// every rule further down that can be broken together with it, so the list pins
// the order as well.
var refusals = []struct {
	want  string
	spoil func(*generate.Draft)
}{
	{"you must use sampling when `best_of` is > 1", func(d *generate.Draft) { d.BestOf = ptr(uint64(2)) }},
	{"`temperature` must be strictly positive", func(d *generate.Draft) { d.Temperature = ptr(float32(0)) }},
	{"`repetition_penalty` must be strictly positive", func(d *generate.Draft) {
		d.RepetitionPenalty = ptr(float32(-1))
	}},
	{"`frequency_penalty` must be >= -2.0 and <= 2.0", func(d *generate.Draft) {
		d.FrequencyPenalty = ptr(float32(2.1))
	}},
	{"`presence_penalty` must be >= -2.0 and <= 2.0. Given: -2.1", func(d *generate.Draft) {
		d.PresencePenalty = ptr(float32(-2.1))
	}},
	{"`top_p` must be > 0.0 and < 1.0", func(d *generate.Draft) { d.TopP = ptr(float32(1)) }},
	{"`typical_p` must be > 0.0 and < 1.0", func(d *generate.Draft) { d.TypicalP = ptr(float32(0)) }},
	{"`min_p` must be >= 0.0 and <= 1.0. Given: 1.5", func(d *generate.Draft) { d.MinP = ptr(float32(1.5)) }},
	{"`top_k` must be strictly positive", func(d *generate.Draft) { d.TopK = ptr(int32(0)) }},
	{"`max_new_tokens` must be strictly positive", func(d *generate.Draft) { d.MaxNewTokens = ptr(uint32(0)) }},
	{"`stop` supports up to 4 stop sequences. Given: 5", func(d *generate.Draft) {
		d.Stop = []string{"", "b", "c", "d", "e"}
	}},
	{"`stop` must not hold empty strings", func(d *generate.Draft) { d.Stop = []string{"a", ""} }},
	{"`seed` must not be set when `best_of` > 1", func(d *generate.Draft) {
		d.Seed, d.BestOf, d.DoSample = ptr(uint64(1)), ptr(uint64(2)), true
	}},
	{"`top_n_tokens` must be >= 0 and <= 5. Given: 6", func(d *generate.Draft) { d.TopNTokens = ptr(uint32(6)) }},
	{"`inputs` cannot be empty", func(d *generate.Draft) { d.Inputs = "" }},
	{"`truncate` must be strictly positive and less than 10. Given: 11", func(d *generate.Draft) {
		d.Truncate = ptr(uint64(11))
	}},
	{"`logit_bias` keys must be token ids < 1000. Given: 1000", func(d *generate.Draft) {
		d.LogitBias = map[uint32]float32{1000: 200}
	}},
	{"`inputs` tokens + `max_new_tokens` must be <= 20. Given: 11 `inputs` tokens and 10 `max_new_tokens`",
		func(d *generate.Draft) {
			d.Inputs, d.MaxNewTokens, d.Truncate = words(11), ptr(uint32(10)), nil
		}},
	{"`inputs` must have less than 10 tokens. Given: 11", func(d *generate.Draft) {
		d.Inputs, d.MaxNewTokens = words(11), ptr(uint32(9))
	}},
	{"grammar is not supported", func(d *generate.Draft) { d.Grammar = &generate.Grammar{Field: "grammar"} }},
	{"adapter `x` is not loaded", func(d *generate.Draft) { d.Adapter = ptr("x") }},
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("w ", n)) }

func check(d generate.Draft) (engine.Request, error) {
	e := &generatetest.Engine{}
	run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(context.Background(), d)
	if err != nil {
		return engine.Request{}, err
	}
	run.Close()
	return e.Requests()[0], nil
}

func TestRefusals(t *testing.T) {
	for i, c := range refusals {
		for j := i; j < len(refusals); j++ {
			d := generate.Draft{Inputs: "a b"}
			refusals[j].spoil(&d)
			c.spoil(&d)
			_, err := check(d)
			var invalid *generate.Invalid
			if !errors.As(err, &invalid) || !errors.Is(err, llm.ErrInvalid) {
				t.Fatalf("%s with %s: got %v", c.want, refusals[j].want, err)
			}
			if invalid.Msg != c.want && !sameField(c.want, refusals[j].want) {
				t.Errorf("with %q broken as well\n got %s\nwant %s", refusals[j].want, invalid.Msg, c.want)
			}
		}
	}
}

// sameField says that two rules cannot be broken together, because the second
// to be set undoes or outranks the first.
func sameField(a, b string) bool {
	pairs := [][2]string{
		{"you must use sampling", ""}, // any other may turn sampling on
		{"`stop` supports", "`stop` must"},
		{"`max_new_tokens` must", "`inputs`"},
		{"`inputs` cannot", "`inputs`"}, {"`truncate`", "`inputs` tokens"},
		{"`inputs` tokens", "`inputs` must"},
		{"`seed` must", "`temperature`"},
	}
	for _, p := range pairs {
		if strings.HasPrefix(a, p[0]) && strings.HasPrefix(b, p[1]) && a != b {
			return true
		}
	}
	return false
}

func TestRefusedValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		want string
		d    generate.Draft
	}{
		{"`temperature` must be strictly positive", generate.Draft{Temperature: &nan}},
		{"`repetition_penalty` must be strictly positive", generate.Draft{RepetitionPenalty: &nan}},
		{"`frequency_penalty` must be >= -2.0 and <= 2.0", generate.Draft{FrequencyPenalty: &inf}},
		{"`presence_penalty` must be >= -2.0 and <= 2.0. Given: NaN", generate.Draft{PresencePenalty: &nan}},
		{"`top_p` must be > 0.0 and < 1.0", generate.Draft{TopP: &nan}},
		{"`typical_p` must be > 0.0 and < 1.0", generate.Draft{TypicalP: ptr(float32(1))}},
		{"`min_p` must be >= 0.0 and <= 1.0. Given: NaN", generate.Draft{MinP: &nan}},
		{"`top_k` must be strictly positive", generate.Draft{TopK: ptr(int32(-7))}},
		{"`logit_bias` values must be >= -100 and <= 100. Given: NaN for token 3",
			generate.Draft{LogitBias: map[uint32]float32{3: nan}}},
		{"`truncate` must be strictly positive and less than 10. Given: 0", generate.Draft{Truncate: ptr(uint64(0))}},
		{"`truncate` must be strictly positive and less than 10. Given: 18446744073709551615",
			generate.Draft{Truncate: ptr(uint64(math.MaxUint64))}},
		{"`best_of` must be > 0 and <= 2. Given: 18446744073709551615",
			generate.Draft{BestOf: ptr(uint64(math.MaxUint64))}},
		{"`best_of` must be > 0 and <= 2. Given: 3", generate.Draft{BestOf: ptr(uint64(3)),
			Temperature: ptr(float32(0))}},
		{"`best_of` != 1 is not supported when streaming tokens", generate.Draft{Stream: true, BestOf: ptr(uint64(0)),
			Temperature: ptr(float32(0))}},
		{"`decoder_input_details` == true is not supported when streaming tokens", generate.Draft{Stream: true,
			PromptLogprobs: true}},
		{"`top_n_tokens` must be >= 0 and <= 5. Given: 4294967295",
			generate.Draft{TopNTokens: ptr(uint32(math.MaxUint32))}},
		{"`inputs` tokens + `max_new_tokens` must be <= 20. Given: 1 `inputs` tokens and 4294967295 `max_new_tokens`",
			generate.Draft{MaxNewTokens: ptr(uint32(math.MaxUint32))}},
		{"`inputs` tokens + `max_new_tokens` must be <= 20. Given: 21 `inputs` tokens and 0 `max_new_tokens`",
			generate.Draft{Inputs: words(21)}},
		{"`inputs` must have less than 10 tokens. Given: 20", generate.Draft{Inputs: words(20)}},
	} {
		if c.d.Inputs == "" {
			c.d.Inputs = "a"
		}
		if _, err := check(c.d); err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestBestOfNotAllowed(t *testing.T) {
	l := generatetest.Limits()
	l.MaxBestOf = 1
	_, err := generate.New(&generatetest.Engine{}, generatetest.Words{}, l, nil).Start(context.Background(),
		generate.Draft{Inputs: "a", BestOf: ptr(uint64(2))})
	if err == nil || err.Error() != "`best_of` != 1 is not allowed for this endpoint" {
		t.Errorf("got %v", err)
	}
}

func TestSettings(t *testing.T) {
	off := llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, WatermarkGamma: 0.5, WatermarkDelta: 2,
		MaxNewTokens: 18,
	}
	with := func(change func(*llm.Params)) llm.Params { p := off; change(&p); return p }
	for _, c := range []struct {
		name   string
		d      generate.Draft
		want   llm.Params
		random bool
	}{
		{"nothing given", generate.Draft{}, off, true},
		{"temperature of one is greedy", generate.Draft{Temperature: ptr(float32(1))}, off, true},
		{"temperature samples", generate.Draft{Temperature: ptr(float32(0.5)), Seed: ptr(uint64(9))},
			with(func(p *llm.Params) { p.Temperature, p.Sample, p.Seed = 0.5, true, 9 }), false},
		{"top_k samples", generate.Draft{TopK: ptr(int32(3)), Seed: ptr(uint64(0))}, with(func(p *llm.Params) {
			p.TopK, p.Sample = 3, true
		}), false},
		{"do_sample", generate.Draft{DoSample: true, Seed: ptr(uint64(math.MaxUint64))}, with(func(p *llm.Params) {
			p.Sample, p.Seed = true, math.MaxUint64
		}), false},
		{"the rest", generate.Draft{
			TopP: ptr(float32(0.9)), TypicalP: ptr(float32(0.8)), MinP: ptr(float32(0.1)),
			RepetitionPenalty: ptr(float32(1.2)),
			FrequencyPenalty:  ptr(float32(-2)), PresencePenalty: ptr(float32(2)), Watermark: true,
			Seed:         ptr(uint64(1)),
			MaxNewTokens: ptr(uint32(4)),
			Stop:         []string{"x"}, IgnoreEOS: true, TopNTokens: ptr(uint32(5)), PromptLogprobs: true,
			LogitBias: map[uint32]float32{7: 1, 3: -1},
		}, llm.Params{
			Sample: true, Seed: 1, Temperature: 1, TopP: 0.9, TypicalP: 0.8, MinP: 0.1, RepetitionPenalty: 1.2,
			FrequencyPenalty: -2, PresencePenalty: 2,
			Watermark: true, WatermarkGamma: 0.5, WatermarkDelta: 2, MaxNewTokens: 4, Stop: []string{"x"},
			IgnoreEOS: true, TopN: 5, PromptLogprobs: true,
			LogitBias: []llm.Bias{{Token: 3, Add: -1}, {Token: 7, Add: 1}},
		}, false},
	} {
		c.d.Inputs = "a b"
		r, err := check(c.d)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.random {
			again, _ := check(c.d)
			if r.Params.Seed >= 1<<53 {
				t.Errorf("%s: seed %d has digits that JavaScript does not keep", c.name, r.Params.Seed)
			}
			if again.Params.Seed == r.Params.Seed {
				t.Errorf("%s: the same seed twice: %d", c.name, r.Params.Seed)
			}
			r.Params.Seed = 0
		}
		if !equal(r.Params, c.want) {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, r.Params, c.want)
		}
	}
}

func TestTruncateKeepsTheEnd(t *testing.T) {
	r, err := check(generate.Draft{Inputs: "a bb ccc dddd", Truncate: ptr(uint64(2))})
	if err != nil || len(r.Prompt) != 2 || r.Prompt[0] != 4 || r.Prompt[1] != 5 || r.Params.MaxNewTokens != 18 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err = check(generate.Draft{Inputs: "a bb", Truncate: ptr(uint64(9))}); err != nil || len(r.Prompt) != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestBoundsAreInclusive fills the room to the last token.
func TestBoundsAreInclusive(t *testing.T) {
	r, err := check(generate.Draft{
		Inputs: words(10), MaxNewTokens: ptr(uint32(10)), Truncate: ptr(uint64(10)), TopNTokens: ptr(uint32(5)),
		Stop:             []string{"a", "b", "c", "d"},
		FrequencyPenalty: ptr(float32(2)), MinP: ptr(float32(1)), LogitBias: map[uint32]float32{999: 100},
	})
	if err != nil || len(r.Prompt) != 10 || r.Params.MaxNewTokens != 10 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// fullTurns has no processor for anybody.
type fullTurns struct{}

func (fullTurns) Begin(string) generate.Turn { return fullTurn{} }

type fullTurn struct{}

func (fullTurn) Take(context.Context) bool  { return false }
func (fullTurn) Yield(context.Context) bool { return false }
func (fullTurn) End()                       {}

// TestManyBiasesTakeTurns: many entries of logit_bias wait for a processor before they are sorted, a few do not.
func TestManyBiasesTakeTurns(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for _, n := range []uint32{10, 1000} {
		d := generate.Draft{Inputs: "Hi", LogitBias: map[uint32]float32{}}
		for i := range n {
			d.LogitBias[1_000_000+i] = 1
		}
		s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil)
		_, err := s.WithTurns(fullTurns{}).Start(ctx, d)
		if refused := errors.As(err, new(*generate.Invalid)); refused != (n == 10) || errors.Is(err, gone) == refused {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}
