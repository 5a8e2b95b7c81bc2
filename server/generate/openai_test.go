package generate_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func TestOpenAIRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		want string
		d    generate.Draft
	}{
		{"`n` must be >= 1 and <= 8. Given: 0", generate.Draft{N: ptr(uint64(0)), Temperature: &nan}},
		{"`n` must be >= 1 and <= 8. Given: 9", generate.Draft{N: ptr(uint64(9))}},
		{"`best_of` must be >= `n`. Given: 0 and `n` 1", generate.Draft{BestOf: ptr(uint64(0))}},
		{"`best_of` must be >= `n`. Given: 2 and `n` 3", generate.Draft{BestOf: ptr(uint64(2)), N: ptr(uint64(3))}},
		{"`best_of` > `n` is not supported when streaming tokens", generate.Draft{Stream: true,
			BestOf: ptr(uint64(2))}},
		{"`best_of` must be > 0 and <= 2. Given: 4", generate.Draft{BestOf: ptr(uint64(4)), N: ptr(uint64(3))}},
		{"`temperature` must be >= 0.0. Given: -0.1", generate.Draft{Temperature: ptr(float32(-0.1))}},
		{"`temperature` must be >= 0.0. Given: NaN", generate.Draft{Temperature: &nan}},
		{"`temperature` must be >= 0.0. Given: +Inf", generate.Draft{Temperature: &inf}},
		{"`top_p` must be >= 0.0 and <= 1.0. Given: 1.01", generate.Draft{TopP: ptr(float32(1.01))}},
		{"`typical_p` must be > 0.0 and <= 1.0. Given: 0", generate.Draft{TypicalP: ptr(float32(0))}},
		{"`frequency_penalty` must be >= -2.0 and <= 2.0", generate.Draft{FrequencyPenalty: &nan}},
		{"`presence_penalty` must be >= -2.0 and <= 2.0. Given: 2.5",
			generate.Draft{PresencePenalty: ptr(float32(2.5))}},
		{"`top_k` must be >= -1. Given: -2", generate.Draft{TopK: ptr(int32(-2))}},
		{"`top_logprobs` must be >= 0 and <= 20. Given: 21", generate.Draft{TopNTokens: ptr(uint32(21))}},
		{"`inputs` must hold token ids < 1000. Given: 1000 in place 1", generate.Draft{Tokens: []llm.Token{3, 1000}}},
		{"`inputs` must have at least one token", generate.Draft{Tokens: []llm.Token{}}},
	} {
		c.d.Rules = generate.OpenAI
		if c.d.Tokens == nil {
			c.d.Inputs = "a"
		}
		if _, err := check(c.d); err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	d := generate.Draft{Inputs: words(11), MaxNewTokens: ptr(uint32(1)), Rules: generate.OpenAI}
	var e *generate.Invalid
	if _, err := check(d); !errors.As(err, &e) || !e.TooLong || e.Field != "inputs" {
		t.Errorf("a long prompt: got %+v", e)
	}
}

func TestOpenAISettings(t *testing.T) {
	off := llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, WatermarkGamma: 0.5, WatermarkDelta: 2,
		MaxNewTokens: 18,
		Sample:       true, RawLogprobs: true, Seed: 5,
	}
	with := func(change func(*llm.Params)) llm.Params { p := off; change(&p); return p }
	for name, c := range map[string]struct {
		d    generate.Draft
		want llm.Params
	}{
		"nothing given draws": {generate.Draft{}, off},
		"temperature 0 is greedy": {generate.Draft{Temperature: ptr(float32(0))}, with(func(p *llm.Params) {
			p.Sample = false
		})},
		"top_p 0 is greedy": {generate.Draft{TopP: ptr(float32(0))}, with(func(p *llm.Params) {
			p.Sample = false
		})},
		"top_p 1 is off": {generate.Draft{TopP: ptr(float32(1)), TypicalP: ptr(float32(1)),
			TopK: ptr(int32(-1))}, off},
		"twenty of the likeliest": {generate.Draft{TopNTokens: ptr(uint32(20))}, with(func(p *llm.Params) {
			p.TopN = 20
		})},
		"the presence penalty": {generate.Draft{PresencePenalty: ptr(float32(-2))}, with(func(p *llm.Params) {
			p.PresencePenalty = -2
		})},
		"a seed of several":        {generate.Draft{N: ptr(uint64(3))}, off},
		"not the frequency's form": {generate.Draft{FrequencyPenalty: ptr(float32(2))}, off},
	} {
		c.d.Rules, c.d.Inputs, c.d.Seed = generate.OpenAI, "a b", ptr(uint64(5))
		r, err := check(c.d)
		if err != nil || !equal(r.Params, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, r.Params, err, c.want)
		}
		if n := int(max(1, or(c.d.N))); r.N != n {
			t.Errorf("%s: %d sequences, want %d", name, r.N, n)
		}
	}
}

func or(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// TestN: n sequences take n permits, and streams may have several.
func TestN(t *testing.T) {
	l := generatetest.Limits()
	l.MaxConcurrent = 5
	s := generate.New(&generatetest.Engine{}, generatetest.Words{}, l, nil)
	d := generate.Draft{Rules: generate.OpenAI, Inputs: "x", N: ptr(uint64(3)), Stream: true,
		MaxNewTokens: ptr(uint32(1))}
	run, err := s.Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), d); !errors.Is(err, llm.ErrOverloaded) {
		t.Errorf("three of one permit: got %v", err)
	}
	seen := map[int]bool{}
	for {
		e, err := run.Next(t.Context())
		if err != nil {
			break
		}
		seen[e.Index] = true
	}
	run.Close()
	if len(seen) != 3 {
		t.Errorf("sequences %v, want three", seen)
	}
	if run, err = s.Start(t.Context(), d); err != nil {
		t.Fatal("the permits did not come back:", err)
	}
	run.Close()
}

// TestCountPenalty: each time that the output holds a token its logit loses the
// penalty; the prompt does not count, and user code comes after.
func TestCountPenalty(t *testing.T) {
	e := &generatetest.Engine{}
	d := generate.Draft{Rules: generate.OpenAI, Inputs: "x", FrequencyPenalty: ptr(float32(0.5))}
	code := generatetest.UserCode{Loop: func([]generate.PluginCall) (func(int) sample.Plugins, error) {
		return func(int) sample.Plugins { return sample.Plugins{Processors: []sample.Processor{double{}}} }, nil
	}}
	run, err := code.On(generate.New(e, generatetest.Words{}, generatetest.Limits(), nil)).Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	run.Close()
	seq := e.Requests()[0].Plugins(0)
	for _, c := range []struct {
		output []llm.Token
		want   []float32
	}{
		{nil, []float32{2, 2, 2, 2}},
		{[]llm.Token{1}, []float32{2, 1, 2, 2}},
		{[]llm.Token{1, 3, 1}, []float32{2, 0, 2, 1}},
		{[]llm.Token{1, 3, 1, 900}, []float32{2, 0, 2, 1}},
	} {
		step := &sample.Step{Logits: []float32{1, 1, 1, 1}}
		for _, p := range seq.Processors {
			if err := p.Process(sample.History{Prompt: []llm.Token{0, 0}, Output: c.output}, step); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(step.Logits, c.want) {
			t.Errorf("after %v: got %v, want %v", c.output, step.Logits, c.want)
		}
	}
}

// double is a plugin that doubles every logit.
type double struct{}

// Process implements sample.Processor.
func (double) Process(_ sample.History, s *sample.Step) error {
	for i := range s.Logits {
		s.Logits[i] *= 2
	}
	return nil
}

// TestStopFilter: pieces as they arrive, "<x>" for a special token; want has what
// may be shown after each, parted by "|".
func TestStopFilter(t *testing.T) {
	for _, c := range []struct {
		stops  []string
		pieces []string
		end    llm.Reason
		want   string
		keep   bool
	}{
		{nil, []string{"a", "b", "<x>"}, llm.FinishEOS, "a|b|", false},
		{[]string{"ab"}, []string{"a", "a", "c"}, llm.FinishLength, "|a|ac", false},
		{[]string{"ab"}, []string{"xa", "b"}, llm.FinishStop, "x|", false},
		{[]string{"ab"}, []string{"xa", "bc"}, llm.FinishLength, "x|", false},
		{[]string{"ab"}, []string{"xa", "b"}, llm.FinishLength, "x|", false},
		{[]string{"ab"}, []string{"xa", "b"}, llm.FinishStop, "xa|b", true},
		{[]string{"abc", "b"}, []string{"xa", "b"}, llm.FinishStop, "x|a", false},
		{[]string{"a<x>"}, []string{"ba", "<x>"}, llm.FinishStop, "b|", false},
		{[]string{"a<y>"}, []string{"ba", "<x>", "c"}, llm.FinishLength, "b|a|c", false},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, llm.FinishStop, "||a|", false},
		{[]string{""}, []string{"a", "b"}, llm.FinishLength, "a|b", false},
		{[]string{"€"}, []string{"a\xe2\x82", "\xac"}, llm.FinishStop, "a|", false},
	} {
		var tokens []generate.Token
		for _, p := range c.pieces {
			tokens = append(tokens, generate.Token{Text: p, Special: strings.HasPrefix(p, "<")})
		}
		events := generatetest.Sequence(engine.Request{}, 0, c.end, tokens...)
		h := generate.NewStopFilter(c.stops, c.keep)
		var shown []string
		for i := range events {
			now := ""
			for _, s := range h.Next(&events[i]) {
				if !s.Special {
					now += s.Text
				}
			}
			shown = append(shown, now)
		}
		if got := strings.Join(shown, "|"); got != c.want {
			t.Errorf("%q stopping at %q: got %q, want %q", c.pieces, c.stops, got, c.want)
		}
	}
}
