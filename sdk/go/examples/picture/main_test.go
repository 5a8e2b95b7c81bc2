package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tgi/sdk/go/examples/internal/vectors"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/steps"
)

// TestVectors: the pictures that the examples of all languages are tested with.
func TestVectors(t *testing.T) {
	for _, c := range vectors.Read(t, "picture") {
		plugintest.New(t, c.Words...)
		var r steps.Request
		if err := json.Unmarshal(c.Request, &r); err != nil {
			t.Fatal(err)
		}
		s, err := opened{}.Begin(r)
		if err != nil || c.Error != "" {
			if err == nil || err.Error() != c.Error {
				t.Errorf("%s: %v, want %s", c.About, err, c.Error)
			}
			continue
		}
		masks := map[uint64]string{} // by key: of equal keys they are equal
		for i, want := range c.Allowed {
			if i > 0 {
				if err := s.Accept(c.Tokens[i-1]); err != nil {
					t.Fatalf("%s: token %d: %v", c.About, c.Tokens[i-1], err)
				}
			}
			got, ahead, key := allowed(s, c.Words), s.(steps.Forcing).Forced(), s.(steps.Keyed).Key()
			if got != want || !slices.Equal(ahead, c.Forced[i]) {
				t.Errorf("%s: after %d tokens %q may come and %v must, want %q and %v", c.About, i, got, ahead, want,
					c.Forced[i])
			}
			if was, ok := masks[key]; key == 0 || ok && was != got {
				t.Errorf("%s: key %d names two states, or none", c.About, key)
			}
			masks[key] = got
		}
		if c.Bad != nil && s.Accept(*c.Bad) == nil {
			t.Errorf("%s: token %d may come", c.About, *c.Bad)
		}
	}
}

func allowed(s steps.Sequence, words []string) string {
	m := steps.NewMask()
	s.Mask(m)
	var list []string
	for id, w := range words {
		if m.Allowed(uint32(id)) {
			list = append(list, w)
		}
	}
	return strings.Join(list, " ")
}
