package plugintest_test

import (
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
