package generate

import (
	"math"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// letters is a tokenizer of bytes.
type letters struct{ Tokenizer }

func (letters) Bytes(t llm.Token) ([]byte, bool) { return []byte{byte(t)}, t < 256 }
func (letters) EncodeSpans(text string, _ []Span) (ids []llm.Token) {
	for _, b := range []byte(text) {
		ids = append(ids, llm.Token(b))
	}
	return ids
}

// write lets a model that would write text do so under a limit, and returns what comes of it. A grammar forbids the
// tokens of deny.
func write(t *testing.T, l *reasoningLimit, text, deny string) string {
	t.Helper()
	return writeOn(t, l, nil, text, deny)
}

// writeOn is write behind what was written already.
func writeOn(t *testing.T, l *reasoningLimit, out []llm.Token, text, deny string) string {
	t.Helper()
	for len(out) < len(text) {
		s := &sample.Step{Logits: make([]float32, 256), Force: -1}
		for _, c := range []byte(deny) {
			s.Logits[c] = float32(math.Inf(-1))
		}
		if err := l.Process(sample.History{Output: out}, s); err != nil {
			t.Fatal(err)
		}
		next := llm.Token(text[len(out)])
		if s.Force >= 0 {
			next = llm.Token(s.Force)
		}
		out = append(out, next)
	}
	var b strings.Builder
	for _, id := range out {
		b.WriteByte(byte(id))
	}
	return b.String()
}

func TestReasoningLimit(t *testing.T) {
	think := Reasoning{Begin: []string{"<t>", "[t]"}, End: []string{"</t>", "<call>"}}
	open := Reasoning{Open: true, End: think.End}
	for _, c := range []struct {
		name       string
		of         *Reasoning
		text, deny string
		want       string
	}{
		{"too long", &think, "<t>abcdefghijklmnop", "", "<t>abcdefg</t>lmnop"},
		{"open", &open, "abcdefghijklmnop", "", "abcdefghij</t>op"},
		{"ended", &think, "<t>a</t>bcdefghijkl", "", "<t>a</t>bcdefghijkl"},
		{"ended by a call", &open, "a<call>bcdefghijkl", "", "a<call>bcdefghijkl"},
		{"none", &think, "<call>abcdefghijkl", "", "<call>abcdefghijkl"},
		{"another beginning", &think, "[t]abcdefghijklmnop", "", "[t]abcdefg</t>lmnop"},
		{"inside a character", &open, "abcdefghi\u20acjklmnop", "", "abcdefghi\u20ac</t>nop"},
		{"half of an end", &open, "abcdefgh</jklmnop", "", "abcdefgh</</t>nop"},
		{"the grammar wants something else", &open, "abcdefghijklmnop", "<", "abcdefghijklmnop"},
	} {
		l := &reasoningLimit{of: c.of, tok: letters{}, budget: 10}
		if got := write(t, l, c.text, c.deny); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for n := range len(c.want) + 1 { // goes on from anywhere as if there had been no more
			out := letters{}.EncodeSpans(c.want[:n], nil)
			if err := l.Rewind(sample.History{Output: out}); err != nil {
				t.Fatal(err)
			}
			if got := writeOn(t, l, out, c.text, c.deny); got != c.want {
				t.Errorf("%s: %q from %d on, want %q", c.name, got, n, c.want)
			}
		}
	}
}

// TestReasoningForks: a fork ends its reasoning by itself.
func TestReasoningForks(t *testing.T) {
	first := &reasoningLimit{of: &Reasoning{Open: true, End: []string{"</t>"}}, tok: letters{}, budget: 2}
	write(t, first, "abcd", "")
	twin, err := first.code().Fork()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*reasoningLimit{first, twin.Processors[0].(*reasoningLimit)} {
		s := &sample.Step{Logits: make([]float32, 256), Force: -1}
		if err := l.Process(sample.History{Output: letters{}.EncodeSpans("ab</", nil)}, s); err != nil ||
			s.Force != 't' {
			t.Errorf("forced %d, %v", s.Force, err)
		}
	}
}
