package main

import (
	"strings"
	"testing"

	"tgi/sdk/go/plugin"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/steps"
)

// begin begins a text over a small vocabulary.
func begin(t *testing.T, source, params string) (steps.Sequence, error) {
	t.Helper()
	plugintest.New(t, "a", "b", "c", "aa", "ab", "bbc", "x", "</s>")
	var raw []byte
	if params != "" {
		raw = []byte(params)
	}
	return runs{20}.Begin(steps.Request{Language: "equal-runs", Source: source, Params: raw})
}

// allowed spells the tokens that may come next.
func allowed(s steps.Sequence) string {
	m := steps.NewMask()
	s.Mask(m)
	var list []string
	for id := range plugin.VocabSize() {
		if m.Allowed(id) {
			b, _ := plugin.TokenBytes(id)
			list = append(list, string(b))
		}
	}
	return strings.Join(list, " ")
}

func TestRuns(t *testing.T) {
	const a, b, c, aa, ab, bbc, end = 0, 1, 2, 3, 4, 5, 7
	for _, x := range []struct {
		source, params string
		done           []uint32
		want           string
	}{
		{"abc", "", nil, "a aa ab"},
		{"abc", "", []uint32{a}, "a b aa ab"},
		{"abc", "", []uint32{aa}, "a b aa ab bbc"},
		{"abc", "", []uint32{aa, b}, "b"},
		{"abc", "", []uint32{aa, bbc}, "c"},
		{"abc", "", []uint32{aa, bbc, c}, "</s>"},
		{"abc", "", []uint32{ab, c, end}, "</s>"},
		{"ab", "", []uint32{ab}, "</s>"},
		{"abc", `{"most":2}`, []uint32{a}, "a b ab"},
		{"abc", `{"most":1}`, nil, "a ab"},
		{"b", "", []uint32{b}, "b </s>"},
	} {
		s, err := begin(t, x.source, x.params)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range x.done {
			if err := s.Accept(id); err != nil {
				t.Fatalf("%s %v: %v", x.source, x.done, err)
			}
		}
		if got := allowed(s); got != x.want {
			t.Errorf("%s after %v: %q may come, want %q", x.source, x.done, got, x.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, x := range []struct{ source, params, want string }{
		{"", "", "the source has 0 letters, want 1 to 26"},
		{"aba", "", "the source has 'a' in place 3, want small letters, each once"},
		{"aB", "", "the source has 'B' in place 2, want small letters, each once"},
		{"ab", `{"most":0}`, "most: 0 is not from 1 to 1000"},
		{"ab", `{"least":1}`, "unknown parameter: least"},
	} {
		if _, err := begin(t, x.source, x.params); err == nil || err.Error() != x.want {
			t.Errorf("%q %s: %v, want %s", x.source, x.params, err, x.want)
		}
	}
	s, err := begin(t, "abc", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint32{1, 6, 7, 99} {
		if s.Accept(id) == nil {
			t.Errorf("token %d was accepted", id)
		}
	}
}
