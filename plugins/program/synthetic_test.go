package program

import (
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// words are a vocabulary of single letters, which are all that a Synthetic says.
type words struct{}

func (words) Size() int                  { return 3 }
func (words) Bytes(id uint32) []byte     { return []byte{'a' + byte(id)} }
func (words) Flags(uint32) uint32        { return 0 }
func (words) Encode(string) []uint32     { return nil }
func (words) EncodeData(string) []uint32 { return nil }

// TestSyntheticIsDenied: a run does not begin with what it is denied, and has no token where that is all.
func TestSyntheticIsDenied(t *testing.T) {
	h := NewSynthetic(words{}, []uint32{1})
	for settings, want := range map[string][]uint32{`{"deny":[0,2],"max_tokens":3}`: {1}, `{"deny":[1,2]}`: {0},
		`{"deny":[0,1]}`: {2}, `{"deny":[2,1,0]}`: nil, `{"deny":[]}`: {0, 1, 2}} {
		if err := h.Rewind(0, 1); err != nil {
			t.Fatal(err)
		}
		if err := h.Start(0, []byte(settings)); err != nil {
			t.Fatal(err)
		}
		s, err := h.Span(0)
		tokens, _ := h.Tokens(0)
		switch {
		case err != nil || s.From != 1 || s.Count != len(tokens)-1 || s.Denied != (want == nil):
			t.Errorf("%s: %+v, %v (%v)", settings, s, tokens, err)
		case want == nil && (s.Count != 0 || s.Reason != llm.FinishNone):
			t.Errorf("%s: %+v", settings, s)
		case want != nil && !slices.Contains(want, tokens[1]):
			t.Errorf("%s: begins with %d, want one of %v", settings, tokens[1], want)
		}
	}
}
