package main

import (
	"slices"
	"strings"
	"testing"

	"tgi/sdk/go/plugintest"
)

// TestGuesses: it guesses what follows in a phrase behind the text's last tokens.
func TestGuesses(t *testing.T) {
	plugintest.New(t, "a", "b", "c", "d", "e", "</s>")
	p, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Begin([]byte(`{"phrases": ["abcde", "bbca"]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tokens, want []uint32
		room         int
	}{
		{[]uint32{4, 0, 1, 2}, []uint32{3, 4}, 8},
		{[]uint32{4, 0, 1, 2}, []uint32{3}, 1},
		{[]uint32{1, 1, 2}, []uint32{0}, 8},
		{[]uint32{2, 2}, nil, 8},
		{nil, nil, 8},
	} {
		room := make([]uint32, c.room)
		if n, err := d.Propose(c.tokens, len(c.tokens), room); err != nil || !slices.Equal(room[:n], c.want) {
			t.Errorf("behind %v it expects %v (%v), want %v", c.tokens, room[:n], err, c.want)
		}
	}
	for _, bad := range []string{`{"phrases": [1]}`, `{"phrase": []}`, `{`,
		`{"phrases": [` + strings.Repeat(`"a",`, 64) + `"a"]}`, `{"phrases": ["` + strings.Repeat("a", 8193) + `"]}`} {
		if _, err := p.Begin([]byte(bad), nil); err == nil {
			t.Errorf("%.40s is accepted", bad)
		}
	}
}
