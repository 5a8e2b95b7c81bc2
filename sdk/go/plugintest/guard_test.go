package plugintest_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/guard"
	"tgi/sdk/go/plugintest"
)

// noX gives the client "<>" instead of each x.
type noX struct{}

func (noX) Begin([]byte, []uint32) (guard.Guard, error) { return noX{}, nil }

func (noX) Check(s *guard.Step) error {
	var edits []guard.Edit
	for i := s.Context; i < len(s.Text); i++ {
		if s.Text[i] == 'x' {
			edits = append(edits, guard.Edit{From: i, To: i + 1, Words: "<>"})
		}
	}
	if edits != nil {
		s.Edit(len(s.Tokens), edits...)
	}
	return nil
}

func TestEdits(t *testing.T) {
	plugintest.New(t, "a", "x", "bxxcx")
	w, err := plugintest.Watch(noX{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "ab<><>c<>", "ab<><>c<><>"} {
		r, err := w.Push([]uint32{0, 2, 1}[i], abi.ReasonNone)
		if err != nil || w.Shown != want || (r.Edits != nil) != (i > 0) {
			t.Errorf("%d: %+v, %v, shown %q, want %q", i, r, err, w.Shown, want)
		}
	}
}

// saying is a guard with one answer, given from the third token on.
type saying func(s *guard.Step)

func (g saying) Begin([]byte, []uint32) (guard.Guard, error) { return g, nil }

func (g saying) Check(s *guard.Step) error {
	if len(s.Tokens) < 3 {
		s.Release(min(1, len(s.Tokens)))
	} else {
		g(s)
	}
	return nil
}

// TestRefusedVerdicts: a test fails where the server refuses a verdict, with its words.
func TestRefusedVerdicts(t *testing.T) {
	edits := func(list ...guard.Edit) saying { return func(s *guard.Step) { s.Edit(3, list...) } }
	for want, says := range map[string]saying{
		"edit 0 takes bytes 1 to 3, want them in order from 2 to 7": edits(guard.Edit{From: 1, To: 3}),
		"edit 0 takes bytes 3 to 2, want them in order from 2 to 7": edits(guard.Edit{From: 3, To: 2}),
		"edit 0 takes bytes 2 to 8, want them in order from 2 to 7": edits(guard.Edit{From: 2, To: 8}),
		"edit 1 takes bytes 3 to 4, want them in order from 4 to 7": edits(guard.Edit{From: 2, To: 4},
			guard.Edit{From: 3, To: 4}),
		"edit 0 takes bytes 2 to 5, which are no whole characters": edits(guard.Edit{From: 2, To: 5}),
		"the words of edit 0 are not UTF-8":                        edits(guard.Edit{From: 2, To: 4, Words: "\xc3"}),
		"a text of 5003 bytes, the limit is 4096": edits(guard.Edit{From: 2, To: 4,
			Words: strings.Repeat("a", 5000)}),
		"4097 edits, the limit is 4096":            edits(make([]guard.Edit, 4097)...),
		"verdict replace: position 1, want 2 to 3": func(s *guard.Step) { s.Edit(1) },
		"verdict release: position 4, want 1 to 3": func(s *guard.Step) { s.Release(4) },
		"verdict rewind: position 3, want 1 to 2":  func(s *guard.Step) { s.Rewind(3) },
	} {
		plugintest.New(t, "ab", "cd", "\u00e9f")
		w, err := plugintest.Watch(says, "{}")
		if err != nil {
			t.Fatal(err)
		}
		for token := range uint32(3) {
			if _, err = w.Push(token, abi.ReasonNone); (err != nil) != (token == 2) {
				t.Errorf("%s: token %d: %v", want, token, err)
			}
		}
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
