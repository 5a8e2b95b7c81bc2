package plugins

import (
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/runtime/llm"
)

// drafting is a guest of kind draft that guesses how many tokens there are and how many are new; where there are nine
// it does something else.
func drafting(instead ...guesttest.Code) []byte {
	put := func(at uint32, code guesttest.Code) guesttest.Code {
		return guesttest.Join(guesttest.Arg(3), guesttest.Const(at), guesttest.Add(), code, guesttest.Put())
	}
	code := []guesttest.Code{}
	for _, x := range instead {
		code = append(code, guesttest.Arg(1), guesttest.Const(9), guesttest.Equal(), guesttest.When(x))
	}
	code = append(code, put(0, guesttest.Arg(1)), put(4, guesttest.Arg(2)), guesttest.Const(2))
	return guesttest.Fake{Description: `{"name":"d","version":"1","kinds":["draft"]}`,
		Code: map[string]guesttest.Code{"tgi_draft_propose": guesttest.Join(code...)}}.Wasm()
}

// drafters begins a sequence with a plugin.
func drafters(t *testing.T, set *Set) (*Bound, []*Drafter) {
	t.Helper()
	b := bind(t, set, 1, Call{Name: "d"})
	s := b.Sequence(0)
	t.Cleanup(func() {
		b.Release(0)
		b.Close()
	})
	if len(s.Drafters) != 1 || len(s.Names()) != 0 || len(s.Processors) != 0 {
		t.Fatalf("%d drafters, the sequence waits for %v", len(s.Drafters), s.Names())
	}
	return b, s.Drafters
}

// TestDrafter: a guest is shown the sequence, also where tokens are others than before, and its guesses come back.
func TestDrafter(t *testing.T) {
	_, list := drafters(t, open(t, Options{Specs: []Spec{spec(t, "d", drafting())}}))
	n := uint32(len(prompt))
	for _, c := range []struct{ output, want []uint32 }{
		{nil, []uint32{n, 0}},
		{[]uint32{5, 6, 7}, []uint32{n + 3, 3}},
		{[]uint32{5, 6, 7, 8}, []uint32{n + 4, 1}},
		{[]uint32{5, 9}, []uint32{n + 2, 1}}, // a guard took tokens back
	} {
		room := make([]uint32, 7)
		got := list[0].Draft(llm.History{Prompt: prompt, Output: c.output}, nil, room)
		if got != 2 || !slices.Equal(room[:2], c.want) {
			t.Errorf("%v: guesses %v, want %v", c.output, room[:got], c.want)
		}
	}
	if n := list[0].Draft(llm.History{Prompt: prompt}, []uint32{1}, make([]uint32, 4)); n != 0 {
		t.Errorf("behind another's guess: %d", n)
	}
}

// TestHostileDrafter: a guest that traps, spins, lies or takes memory ends nothing: the sequence goes on without it,
// and the request says so.
func TestHostileDrafter(t *testing.T) {
	for want, code := range map[string]guesttest.Code{
		"trap":                     guesttest.Trap(),
		"out of fuel":              guesttest.Spin(),
		"the guest failed with -1": guesttest.Join(guesttest.Const(0xffffffff), guesttest.Code{0x0f}),
		"a guess of 5 tokens, there is room for 4": guesttest.Join(guesttest.Const(5), guesttest.Code{0x0f}),
		"token 0 of the guess is 1000000, the vocabu": guesttest.Join(guesttest.Arg(3), guesttest.Const(1000000),
			guesttest.Put(), guesttest.Const(1), guesttest.Code{0x0f}),
		"memory": guesttest.Join(guesttest.Arg(3), guesttest.Const(1<<30), guesttest.Add(), guesttest.Const(1),
			guesttest.Put()),
	} {
		t.Run(want, func(t *testing.T) {
			set := open(t, Options{Specs: []Spec{spec(t, "d", drafting(code))}})
			b, list := drafters(t, set)
			ask := func(n int) int {
				h := llm.History{Prompt: prompt, Output: make([]uint32, n-len(prompt))}
				return list[0].Draft(h, nil, make([]uint32, 4))
			}
			if got := []int{ask(8), ask(9), ask(10)}; !slices.Equal(got, []int{2, 0, 0}) {
				t.Errorf("guesses of %v tokens", got)
			}
			skipped := b.Skipped()
			if len(skipped) != 1 || skipped[0].Plugin != "d" ||
				!strings.HasPrefix(skipped[0].Reason, "tgi_draft_propose: ") ||
				!strings.Contains(skipped[0].Reason, want) {
				t.Errorf("skipped %+v", skipped)
			}
		})
	}
}

// TestForkWithoutDrafts: beams have the processors of a sequence, and not what guesses for it.
func TestForkWithoutDrafts(t *testing.T) {
	set := open(t, Options{Specs: []Spec{spec(t, "d", drafting()), spec(t, "a", bias(2).Wasm())}})
	b := bind(t, set, 1, Call{Name: "d"}, Call{Name: "a"})
	defer b.Close()
	s := b.Sequence(0)
	defer s.Release()
	twin, err := s.Fork(7)
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Release()
	x := row()
	if len(twin.Drafters) != 0 || len(twin.Processors) != 1 {
		t.Fatalf("%d drafters, %d processors", len(twin.Drafters), len(twin.Processors))
	}
	if _, err := twin.Processors[0].Run(prompt, nil, x); err != nil || x[5] == row()[5] {
		t.Errorf("%v, logit %v", err, x[5])
	}
}

// TestDraftAlone: a module that guesses does nothing else in the token loop.
func TestDraftAlone(t *testing.T) {
	_, err := Open(t.Context(), options(t, Options{Specs: []Spec{spec(t, "d", guesttest.Fake{
		Description: `{"name":"d","kinds":["draft","sampler"]}`}.Wasm())}}))
	if err == nil || !strings.Contains(err.Error(), "it is a module of its own") {
		t.Error(err)
	}
}
