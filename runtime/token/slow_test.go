package token

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/runtime/llm"
)

// TestSlowPattern: a prompt for which a pattern takes too long is an error, and not other tokens.
func TestSlowPattern(t *testing.T) {
	slow, err := newRegex(`(a+)+b|[^a]`)
	if err != nil {
		t.Fatal(err)
	}
	slow.re.MatchTimeout = 20 * time.Millisecond
	fine, bad := "xyz aab", "xyz "+strings.Repeat("a", 64)
	if _, late := slow.matches(fine); late {
		t.Error("a short text is late")
	}
	if _, late := slow.matches(bad); !late {
		t.Skip("regexp2 has become quicker than this pattern is slow")
	}
	for name, stage := range map[string]func(*Tokenizer){
		"pre-tokenizer": func(x *Tokenizer) { x.pre = []pretoken{&split{on: slow}, &byteLevel{raw: true}} },
		"normalizer": func(x *Tokenizer) {
			x.normalizer = normalizers{lowercase{}, replace{on: slow, content: "z"}, strip{true, true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := *loadFile(t, "gpt2")
			stage(&x)
			e, err := x.EncodePrompt(fine, llm.Encoding{})
			if err != nil || !slices.Equal(e.Tokens, x.Encode(fine, false)) {
				t.Errorf("a fine text: %v, %v", e.Tokens, err)
			}
			e, err = x.EncodePrompt(bad, llm.Encoding{})
			if !errors.Is(err, ErrSlow) || !errors.Is(err, llm.ErrInvalid) || e.Tokens != nil {
				t.Errorf("got %v, %v", e.Tokens, err)
			}
			if ids := x.Encode(bad, false); len(ids) == 0 { // never hangs
				t.Error("there are no tokens")
			}
		})
	}
}
