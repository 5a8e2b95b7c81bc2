package generate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func TestGuidanceRefusals(t *testing.T) {
	f := func(v float32) *float32 { return &v }
	other := generate.Other{Text: ptr("b")}
	for _, c := range []struct {
		field, want string
		d           generate.Draft
	}{
		{"guidance_scale", "`guidance_scale` must be >= 0.0 and <= 100.0. Given: -1",
			generate.Draft{Guidance: generate.Guidance{Scale: f(-1)}}},
		{"guidance_scale", "`guidance_scale` must be >= 0.0 and <= 100.0. Given: NaN",
			generate.Draft{Guidance: generate.Guidance{Scale: f(nanf)}}},
		{"negative_prompt", "`negative_prompt` needs `guidance_scale`, which says how much it counts",
			generate.Draft{Guidance: generate.Guidance{Negative: other}}},
		{"contrastive", "`contrastive` and `guidance_scale` exclude each other",
			generate.Draft{Guidance: generate.Guidance{Scale: f(2), Contrast: &generate.Contrast{Other: other}}}},
		{"contrastive", "`contrastive` must have a `prompt` or `messages`",
			generate.Draft{Guidance: generate.Guidance{Contrast: &generate.Contrast{}}}},
		{"contrastive.beta", "`contrastive.beta` must be >= 0.0 and <= 100.0. Given: 101",
			generate.Draft{Guidance: generate.Guidance{Contrast: &generate.Contrast{Other: other, Beta: f(101)}}}},
		{"contrastive.alpha", "`contrastive.alpha` must be >= 0.0 and <= 1.0. Given: 1.5",
			generate.Draft{Guidance: generate.Guidance{Contrast: &generate.Contrast{Other: other, Alpha: f(1.5)}}}},
		{"guidance_scale", "`guidance_scale` and `num_beams` > 1 exclude each other",
			generate.Draft{NumBeams: ptr(uint64(2)), Guidance: generate.Guidance{Scale: f(2)}}},
		{"guidance_scale", "`guidance_scale` and `token_healing` exclude each other",
			generate.Draft{Heal: ptr(true), Guidance: generate.Guidance{Scale: f(2)}}},
		{"n", "`n` must be >= 1 and <= 2. Given: 3",
			generate.Draft{Rules: generate.OpenAI, N: ptr(uint64(3)), Guidance: generate.Guidance{Scale: f(2)}}},
		{"negative_prompt", "`negative_prompt` must have at most 12 tokens beside 8 `max_new_tokens`. Given: 13",
			generate.Draft{MaxNewTokens: ptr(uint32(8)), Guidance: generate.Guidance{Scale: f(2),
				Negative: generate.Other{Text: ptr(words(13))}}}},
		{"negative_messages", "`negative_messages`: the prompt is no conversation",
			generate.Draft{Guidance: generate.Guidance{Scale: f(2), Negative: generate.Other{
				Messages: []generate.Message{{Role: "user"}}}}}},
	} {
		c.d.Inputs = "a"
		l := generatetest.Limits()
		l.MaxConcurrent, l.MaxInput = 8, 15
		s := generate.New(&generatetest.Engine{}, generatetest.Words{}, l, nil)
		var invalid *generate.Invalid
		if _, err := s.Start(t.Context(), c.d); !errors.As(err, &invalid) || invalid.Msg != c.want ||
			invalid.Field != c.field {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	l := generatetest.Limits()
	l.MaxConcurrent = 2
	_, err := generate.New(&generatetest.Engine{}, generatetest.Words{}, l, nil).Start(t.Context(),
		generate.Draft{Inputs: "a", Guidance: generate.Guidance{Scale: f(2)}})
	if err == nil || !strings.Contains(err.Error(), "takes 2 places, one request gets at most 1") {
		t.Errorf("too few places: %v", err)
	}
}

var nanf = func() float32 { var zero float32; return zero / zero }()

// TestGuidance: what the engine gets, and how many permits are taken.
func TestGuidance(t *testing.T) {
	f := func(v float32) *float32 { return &v }
	tokens := func(text string) []llm.Token {
		e, _ := generatetest.Words{}.EncodePrompt(text, llm.Encoding{Special: true, Most: 100})
		return e.Tokens
	}
	for name, c := range map[string]struct {
		g       generate.Guidance
		twin    []llm.Token
		weights []float32
		alpha   float32
		maxNew  int
	}{
		"none":             {generate.Guidance{}, nil, nil, 0, 17},
		"a scale of 1":     {generate.Guidance{Scale: f(1)}, nil, nil, 0, 17},
		"no second prompt": {generate.Guidance{Scale: f(1.5)}, tokens("a b c")[2:], []float32{1.5, -0.5}, 0, 17},
		"a second prompt": {generate.Guidance{Scale: f(3), Negative: generate.Other{Text: ptr("d e f g")}},
			tokens("d e f g"), []float32{3, -2}, 0, 16},
		"contrastive": {generate.Guidance{Contrast: &generate.Contrast{Other: generate.Other{Text: ptr("d e")}}},
			tokens("d e"), []float32{1.5, -0.5}, 0.1, 17},
		"contrastive, with settings": {generate.Guidance{Contrast: &generate.Contrast{
			Other: generate.Other{Text: ptr("d")}, Beta: f(2), Alpha: f(0)}}, tokens("d"), []float32{3, -2}, 0, 17},
	} {
		e := &generatetest.Engine{Step: make(chan struct{})}
		l := generatetest.Limits()
		l.MaxConcurrent = 7
		s := generate.New(e, generatetest.Words{}, l, nil)
		run, err := s.Start(t.Context(), generate.Draft{Inputs: "a b c", Guidance: c.g, Rules: generate.OpenAI,
			N: ptr(uint64(2))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := e.Requests()[0]
		var twin []llm.Token
		if len(r.Twins) > 0 {
			twin = r.Twins[0]
		}
		if !slices.Equal(twin, c.twin) || !slices.Equal(r.Mix.Weights, c.weights) || r.Mix.Alpha != c.alpha ||
			r.Params.MaxNewTokens != c.maxNew || r.N != 2 {
			t.Errorf("%s: twin %v, %+v, %d new tokens", name, twin, r.Mix, r.Params.MaxNewTokens)
		}
		free := 7 - 2*max(1, len(r.Mix.Weights))
		for i := range 8 {
			next, err := s.Start(t.Context(), generate.Draft{Inputs: "a"})
			if (err == nil) != (i < free) {
				t.Errorf("%s: request %d beside it: %v, %d places should be free", name, i, err, free)
			}
			if err == nil {
				defer next.Close()
			}
		}
		run.Close()
	}
}

// TestGuidanceOfConversations: a text takes the place of the system message, and messages that of all.
func TestGuidanceOfConversations(t *testing.T) {
	f := func(v float32) *float32 { return &v }
	message := func(role, text string) generate.Message {
		return generate.Message{Role: role, HasText: true,
			JSON: []byte(`{"role":"` + role + `","content":"` + text + `"}`)}
	}
	chat := &generatetest.Chat{}
	e := &generatetest.Engine{Script: func(engine.Request) []engine.Event { return nil }}
	l := generatetest.Limits()
	l.MaxTotal, l.MaxInput = 100, 90
	s := generatetest.UserCode{Chat: chat}.On(generate.New(e, generatetest.Words{}, l, nil))
	for name, c := range map[string]struct {
		other generate.Other
		asked string
		want  string // in the second request of the template
	}{
		"a text":       {generate.Other{Text: ptr("B")}, "x", `{"messages":[{"role":"system","content":"B"},{"role":"user","content":"x"}]`},
		"none":         {generate.Other{Text: ptr("")}, "y", `{"messages":[{"role":"user","content":"y"}]`},
		"messages":     {generate.Other{Messages: []generate.Message{message("user", "q")}}, "z", `{"messages":[{"role":"user","content":"q"}]`},
		"not a prompt": {generate.Other{}, "w", ""},
	} {
		before, sent := len(chat.Requests()), len(e.Requests())
		run, err := s.Start(context.Background(), generate.Draft{
			Conversation: &generate.Conversation{Messages: []generate.Message{message("system", "A"),
				message("user", c.asked)}},
			Guidance: generate.Guidance{Scale: f(2), Negative: c.other}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		run.Close()
		all := strings.Join(chat.Requests()[before:], "\n")
		if c.want != "" && strings.Count(all, c.want) != 1 || !strings.Contains(all, `"content":"A"`) {
			t.Errorf("%s: %s, want %s", name, all, c.want)
		}
		r := e.Requests()[sent]
		if len(r.Twins) != 1 {
			t.Errorf("%s: twins %v", name, r.Twins)
		}
	}
	if bound, _ := chat.Open(); bound != 0 {
		t.Errorf("%d are bound", bound)
	}
}
