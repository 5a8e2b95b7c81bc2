package plugins

import (
	"slices"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// TestHealedPrompts: guards begin with all of a client's prompt, where the model writes the end of it again; others
// with what the model reads.
func TestHealedPrompts(t *testing.T) {
	guard := guesttest.Fake{Description: `{"name":"g","version":"1","kinds":["guard"],"guard":{"hold":16}}`,
		Code: map[string]guesttest.Code{
			"tgi_guard_check": guesttest.Join(guesttest.Const(guesttest.StepAt+abi.GuardPosition),
				guesttest.Load(guesttest.StepAt+abi.GuardTokenCount), guesttest.Put(), guesttest.Const(0)),
		}}.Wasm()
	set := open(t, Options{Specs: []Spec{spec(t, "g", guard), spec(t, "d", drafting())}})
	b, err := set.Bind(t.Context(), []Call{{Name: "g"}, {Name: "d"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Heal([]uint32{7, 8})
	if err := b.Begin(t.Context(), prompt, 16, []uint64{1}); err != nil {
		t.Fatal(err)
	}
	seq := b.Sequence(0)
	defer seq.Release()
	output := []uint32{7, 8, 9}
	v, err := seq.Guards[0].Check(&llm.GuardView{Prompt: slices.Concat(prompt, []uint32{7, 8}), Output: output,
		Text: []byte("x"), Ends: []uint32{0, 0, 1}})
	if err != nil || v.Position != len(output) {
		t.Errorf("the guard says %+v, %v", v, err)
	}
	room := make([]uint32, 4)
	n := seq.Drafters[0].Draft(llm.History{Prompt: prompt, Output: output}, nil, room)
	if want := uint32(len(prompt) + 3); n == 0 || room[0] != want {
		t.Errorf("the drafter sees %d tokens, want %d", room[0], want)
	}
	if list := b.Skipped(); len(list) > 0 {
		t.Errorf("skipped: %v", list)
	}
}
