package embeddings

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/runtime/embed"
	"tgi/runtime/llm"
)

// byCharacter is a tokenizer whose tokens are characters, but "ab", and "<s>" outside of data. It counts the prompts
// without data.
type byCharacter struct{ bare *int }

func (byCharacter) pieces(text string, data []llm.Span) (out []llm.Piece) {
	at := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		id := llm.Token(r)
		inside := slices.ContainsFunc(data, func(s llm.Span) bool { return i < s.End && i+3 > s.Start })
		switch {
		case strings.HasPrefix(text[i:], "<s>") && !inside:
			size, id = 3, 1
		case strings.HasPrefix(text[i:], "ab"):
			size, id = 2, 2
		}
		n := utf8.RuneCountInString(text[i : i+size])
		out = append(out, llm.Piece{ID: id, Text: text[i : i+size], Start: at, End: at + n})
		i, at = i+size, at+n
	}
	return out
}

func (b byCharacter) EncodePrompt(text string, o llm.Encoding) (e llm.Encoded, err error) {
	if b.bare != nil && !slices.ContainsFunc(o.Data, func(s llm.Span) bool { return s.End > s.Start }) {
		*b.bare++
	}
	for _, p := range b.pieces(text, o.Data) {
		e.Tokens = append(e.Tokens, p.ID)
	}
	if e.Count = len(e.Tokens); o.Most > 0 && e.Count > o.Most {
		e.Tokens = nil
	}
	return e, nil
}

func (b byCharacter) Pieces(text string, _ bool) iter.Seq[llm.Piece] {
	return slices.Values(b.pieces(text, nil))
}

func (byCharacter) Around(ids []llm.Token) []llm.Token       { return ids }
func (byCharacter) Pair(a, b []llm.Token) ([]llm.Token, int) { return slices.Concat(a, b), 0 }
func (byCharacter) Added() (single, pair int)                { return 0, 0 }
func (byCharacter) Decode(ids []llm.Token, _ bool) string    { return "" }
func (byCharacter) Special(id llm.Token) bool                { return id == 1 }
func (short) Shape() embed.Shape                             { return embed.Shape{MaxTokens: 30} }
func (short) Healthy() error                                 { return nil }
func (short) Run(context.Context, llm.Client, []embed.Text, embed.Want) ([][]float32, error) {
	return nil, nil
}

// short is a model of 30 tokens.
type short struct{}

// TestAsked: in a template a pair has the tokens of the whole text, clients' words are no special tokens, and where it
// is too long the template stays whole, and as much of both texts as fits.
func TestAsked(t *testing.T) {
	for _, tmpl := range []Template{{Before: "<s>q:", Between: " d:", After: "<s>?"},
		{Before: "<s>q:a", Between: "b", After: "<s>?", TextFirst: true}} {
		bare := 0
		s := New(Model{Template: &tmpl}, short{}, byCharacter{&bare}, Limits{}, nil)
		ask := func(query, text string, o Options) (string, int, error) {
			cut := true
			o.Truncate, o.Field = &cut, "texts"
			got, err := s.encode(&Input{Text: query, Pair: &text}, 0, &o)
			var words strings.Builder
			for _, id := range got.IDs {
				words.WriteString(map[llm.Token]string{1: "<s>", 2: "ab"}[id])
				if id > 2 {
					words.WriteRune(rune(id))
				}
			}
			return words.String(), len(got.IDs), err
		}
		if got, _, err := ask("wh<s>", "x", Options{}); err != nil || strings.Count(got, "<s>") != 3 {
			t.Errorf("%q %v", got, err)
		}
		e, _ := s.filled("wh<s>", "x", 0)
		if countOf(e.Tokens, 1) != 2 {
			t.Errorf("%v has a special token of a client", e.Tokens)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			query, text := words(random, 40), words(random, 40)
			for _, o := range []Options{{}, {Left: true}, {Second: 5}} {
				got, n, err := ask(query, text, o)
				if err != nil {
					t.Fatalf("%q %q: %v", query, text, err)
				}
				part, begins := strings.CutPrefix(got, tmpl.Before)
				part, ends := strings.CutSuffix(part, tmpl.After)
				if !begins || !ends || n > 30 || !strings.Contains(part, tmpl.Between) {
					t.Errorf("%q %q %+v: %q, %d tokens", query, text, o, got, n)
				}
				whole, _ := s.filled(query, text, 0)
				if o.Second == 0 && whole.Count > 30 && n < 30-2 {
					t.Errorf("%q %q %+v: %q has only %d tokens", query, text, o, got, n)
				}
			}
		}
		if _, err := s.encode(&Input{Text: "x"}, 3, &Options{Field: "texts"}); err == nil ||
			!strings.Contains(err.Error(), "number 3") {
			t.Errorf("a single text: %v", err)
		}
		long := strings.Repeat("x", 40)
		if _, err := s.encode(&Input{Text: "x", Pair: &long}, 0, &Options{Field: "texts"}); err == nil ||
			!strings.Contains(err.Error(), "at most 30 tokens") {
			t.Errorf("a long text that is not cut: %v", err)
		}
		if _, _, err := ask("x", "y", Options{Most: 5}); err == nil || !strings.Contains(err.Error(), "a template of") {
			t.Errorf("less room than the template takes: %v", err)
		}
		if bare != 1 {
			t.Errorf("the template was counted %d times", bare)
		}
	}
}

func countOf(ids []llm.Token, id llm.Token) (n int) {
	for _, one := range ids {
		if one == id {
			n++
		}
	}
	return n
}

// words returns a text of up to n characters.
func words(random *rand.Rand, n int) string {
	out := make([]rune, random.IntN(n))
	for i := range out {
		out[i] = []rune("abüx<s> ")[random.IntN(8)]
	}
	return string(out)
}

// TestSplit: a template is what is around two texts, if each is there once.
func TestSplit(t *testing.T) {
	for _, tmpl := range []Template{{"a", "b", "c", false}, {"", "", "", false}, {"a", "", "c", true}} {
		prompt, data := tmpl.fill("QQ", "TT")
		got, ok := Split(prompt, "QQ", "TT")
		if !ok || got != tmpl || prompt[data[0].Start:data[0].End]+prompt[data[1].Start:data[1].End] !=
			map[bool]string{false: "QQTT", true: "TTQQ"}[tmpl.TextFirst] {
			t.Errorf("%+v: %+v %v of %q, %v", tmpl, got, ok, prompt, data)
		}
	}
	for _, prompt := range []string{"", "QQ", "TT", "QQTTQQ", "QQ TT TT"} {
		if got, ok := Split(prompt, "QQ", "TT"); ok {
			t.Errorf("%q: %+v", prompt, got)
		}
	}
}
