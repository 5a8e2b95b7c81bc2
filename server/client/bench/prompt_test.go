package bench

import (
	"fmt"
	"strings"
	"testing"
)

// TestPromptLengths: whether words are one token or several, prompts have the
// wanted number where the words allow it, and none is like another.
func TestPromptLengths(t *testing.T) {
	for _, most := range []int{99, 4, 3} {
		for _, shared := range []int{0, 2, 9, 40} {
			t.Run(fmt.Sprintf("pieces of %d, %d shared", most, shared), func(t *testing.T) {
				f := &fake{most: most}
				o := options(f)
				o.PromptTokens, o.SharedPrefix = 40, shared
				o, err := o.normal()
				if err != nil {
					t.Fatal(err)
				}
				p, err := calibrate(t.Context(), newClient(o), o)
				if err != nil {
					t.Fatal(err)
				}
				seen := make(map[string]bool)
				for range 50 {
					text := p.next()
					if n := len(f.tokens(text)); n != 40 {
						t.Errorf("%d tokens in %q, want 40", n, text)
					}
					if shared == 0 && seen[text[:20]] {
						t.Errorf("two prompts begin with %q", text[:20])
					}
					if shared > 0 && shared < 40 && seen[text] {
						t.Errorf("two prompts are %q", text)
					}
					if !strings.HasPrefix(text, p.prefix) {
						t.Errorf("%q does not begin with %q", text, p.prefix)
					}
					seen[text], seen[text[:20]] = true, true
				}
				if n := len(f.tokens(p.prefix)); shared > 0 && n != shared {
					t.Errorf("the shared prefix %q has %d tokens, want %d", p.prefix, n, shared)
				}
			})
		}
	}
}

func TestSeedsMakeOtherPrompts(t *testing.T) {
	texts := make(map[string]uint64)
	for _, seed := range []uint64{1, 2, 3, 1} {
		o := options(&fake{most: 99})
		o.Seed = seed
		o, err := o.normal()
		if err != nil {
			t.Fatal(err)
		}
		p, err := calibrate(t.Context(), newClient(o), o)
		if err != nil {
			t.Fatal(err)
		}
		text := p.next()
		if before, ok := texts[text]; ok != (before == seed && ok) || ok && len(texts) < 3 {
			t.Errorf("seeds %d and %d make %q", before, seed, text)
		}
		texts[text] = seed
	}
	if len(texts) != 3 {
		t.Errorf("%d different prompts of 3 seeds", len(texts))
	}
}

func TestAttribute(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []piece
		costs  string
		base   int
	}{
		{"one each", []piece{{0, 2}, {2, 6}, {6, 8}}, "[1 1 1]", 0},
		{"BOS and EOS", []piece{{0, 0}, {0, 2}, {3, 6}, {7, 8}, {8, 8}}, "[1 1 1]", 2},
		{"cut words", []piece{{0, 1}, {1, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 8}}, "[2 3 1]", 0},
		{"space apart", []piece{{0, 2}, {2, 3}, {3, 6}, {6, 8}}, "[1 2 1]", 0},
		{"merged words", []piece{{0, 6}, {6, 8}}, "[0 1 1]", 0},
		{"offsets past the end", []piece{{0, 2}, {2, 6}, {6, 99}}, "[1 1 1]", 0},
	} {
		p := &prompts{words: []string{"ab", "cde", "f"}}
		if err := p.attribute(c.pieces); err != nil || fmt.Sprint(p.costs) != c.costs || p.base != c.base {
			t.Errorf("%s: costs %v, base %d, error %v, want %s and %d", c.name, p.costs, p.base, err, c.costs, c.base)
		}
	}
	if err := (&prompts{words: vocabulary}).attribute([]piece{{0, 0}}); err == nil {
		t.Error("no error for an answer without text")
	}
}
