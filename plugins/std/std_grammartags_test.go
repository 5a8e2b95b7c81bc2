package std_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
)

// TestStructuralTagTokens: tags that begin, end and are triggered by tokens, followed by the host over a vocabulary
// where some of these tokens are special ("<c>", "</c>") and one is an ordinary one ("[T]"). In the texts below « and »
// stand around what is one token; all else is a token per byte.
func TestStructuralTagTokens(t *testing.T) {
	world := kit.NewWorld()
	world.Words = append(world.Words, "<c>", "</c>", "[T]", "hello")
	set := openGrammarOver(t, world)

	token := func(text string) string { return fmt.Sprintf(`{"type":"token","token":%q}`, text) }
	number := `{"type":"json_schema","json_schema":{"type":"integer","minimum":0}}`
	tag := func(begin, end string) string {
		return fmt.Sprintf(`{"type":"tag","begin":%s,"content":%s,"end":%s}`, begin, number, end)
	}
	special, ordinary := tag(token("<c>"), token("</c>")), tag(token("[T]"), `";"`)
	mixed := fmt.Sprintf(`{"type":"triggered_tags","triggers":["<f",%s,%s],"tags":[%s,%s,%s]}`,
		token("<c>"), token("[T]"), special, ordinary, tag(`"<f>"`, `["</f>", `+token("</c>")+`]`))
	byToken := fmt.Sprintf(`{"type":"token_triggered_tags","trigger_tokens":["<c>","[T]"],"exclude_tokens":["hello","</s>"],"tags":[%s,%s]}`,
		special, ordinary)
	for _, c := range []struct {
		format   string
		yes, not []string
	}{
		{special, []string{"«<c>»12«</c>»"}, []string{"<c>12«</c>»", "«<c>»12</c>", "«<c>»12", "«<s>»12«</c>»"}},
		{mixed, []string{"", "a<«hello»", "«hello»«<c>»1«</c>»b«[T]»2;<f>3</f>c<f>4«</c>»", "[T"},
			[]string{"«<c>»", "«[T]»", "[T]", "<c>", "<f", "a«</c>»", "a«<s>»b", "<f>«hello»", "«[T]»2«</c>»"}},
		{byToken, []string{"", "ab<c>[T]", "«<c>»1«</c>»\xff«[T]»3;"}, []string{"«hello»", "«<s>»", "«<c>»",
			"«[T]»1«</c>»", "«</c>»"}},
		{`{"type":"tag","begin":"(","content":{"type":"any_tokens","max_tokens":2},"end":` + token("[T]") + `}`,
			[]string{"(«[T]»", "(«hello»a«[T]»"}, []string{"(", "(aaa", "(«</c>»", "(«[T]»«[T]»"}},
		{`{"type":"token_dispatch","rules":[["<c>",` + number + `],["hello",{"type":"const_string","value":"!"}]]}`,
			[]string{"x«<c>»1", "«hello»!y«<c>»23a", "hello"}, []string{"«<c>»", "«hello»", "«hello»x", "«<s>»"}},
		{`{"type":"exclude_token","exclude_tokens":["hello",97]}`, []string{"b", "«[T]»"}, []string{"", "a", "«hello»",
			"«<c>»", "bb"}},
	} {
		g, err := set.Compile(context.Background(), plugins.GrammarCall{Plugin: "grammar", Language: "structural_tag",
			Source: []byte(c.format)})
		if err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		for _, text := range c.yes {
			if !follows(t, world, g, text) {
				t.Errorf("%s\ndoes not admit %q", c.format, text)
			}
		}
		for _, text := range c.not {
			if follows(t, world, g, text) {
				t.Errorf("%s\nadmits %q", c.format, text)
			}
		}
		g.Close()
	}
	for format, want := range map[string]string{
		`{"type":"token","token":"<nosuch>"}`:                           `"<nosuch>"`,
		`{"type":"exclude_token","exclude_tokens":["<nosuch>"]}`:        `#: exclude_tokens: "<nosuch>" is not one token here`,
		`{"type":"exclude_token","exclude_tokens":["hello there"]}`:     `#: exclude_tokens: "hello there" is not one token here`,
		`{"type":"token_triggered_tags","trigger_tokens":[],"tags":[]}`: `#: tags: want at least one`,
	} {
		_, err := set.Compile(context.Background(), plugins.GrammarCall{Plugin: "grammar", Language: "structural_tag",
			Source: []byte(format)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", format, err, want)
		}
	}
}

// follows reports whether the grammar admits the text and then its end.
func follows(t *testing.T, world *kit.World, g *plugins.Grammar, text string) bool {
	t.Helper()
	s, err := g.Sequence(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	accept := func(word string) {
		id := slices.Index(world.Words, word)
		if id < 0 {
			t.Fatalf("no token %q", word)
		}
		if err == nil {
			err = s.Accept(uint32(id))
		}
	}
	for text != "" {
		bytes, rest, _ := strings.Cut(text, "«")
		for i := range len(bytes) {
			accept(bytes[i : i+1])
		}
		word, more, marked := strings.Cut(rest, "»")
		if marked {
			accept(word)
		}
		text = more
	}
	accept("</s>")
	return err == nil
}
