package plugins

import (
	"bytes"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/program"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// swapGuard is a guard that lets all go out, or holds all back.
func swapGuard(holds bool) []byte {
	from := uint32(abi.GuardTokenCount)
	if holds {
		from = abi.GuardReleased
	}
	return guesttest.Fake{
		Description: `{"name":"fake","version":"1","kinds":["guard"],"guard":{"hold":4}}`,
		Code: map[string]guesttest.Code{
			"tgi_guard_begin": guesttest.Long(0),
			"tgi_guard_check": guesttest.Join(guesttest.Const(guesttest.StepAt+abi.GuardPosition),
				guesttest.Load(guesttest.StepAt+from), guesttest.Put(), guesttest.Const(0)),
		},
	}.Wasm()
}

// swapDraft is a draft that guesses n times token 0.
func swapDraft(n uint32) []byte {
	return guesttest.Fake{Description: `{"name":"d","version":"1","kinds":["draft"]}`,
		Code: map[string]guesttest.Code{"tgi_draft_propose": guesttest.Const(n)}}.Wasm()
}

// heardProgram is a program's host that keeps what it appends, and has its first run wait.
type heardProgram struct {
	*program.Synthetic
	reached, goOn chan struct{} // nil: nothing waits
	heard         string
}

// Append implements program.Host.
func (h *heardProgram) Append(c int, text string, special bool) (int, error) {
	h.heard += text
	return h.Synthetic.Append(c, text, special)
}

// Start implements program.Host.
func (h *heardProgram) Start(c int, settings []byte) error {
	if h.reached != nil {
		close(h.reached)
		<-h.goOn
		h.reached = nil
	}
	return h.Synthetic.Start(c, settings)
}

// TestSwapFreesOldGuardDraftProgram: a sequence with a guard and a draft, and a program that runs, keep the versions
// that they began with, which live until then and no longer; those that begin later have the new ones.
func TestSwapFreesOldGuardDraftProgram(t *testing.T) {
	think := guesttest.SDK(t, "think-then-answer")["c"]
	before, after := "Time is up.", "Time is out"
	wasm := [2][3][]byte{{swapGuard(false), swapDraft(2), think},
		{swapGuard(true), swapDraft(3), bytes.ReplaceAll(think, []byte(before), []byte(after))}}
	var specs []Spec
	for i, name := range []string{"g", "d", "p"} {
		specs = append(specs, spec(t, name, wasm[0][i]))
	}
	s := open(t, Options{Specs: specs})
	look := func(b *Bound) (released, guessed int) {
		seq := b.Sequence(0)
		defer b.Release(0)
		verdict, err := seq.Guards[0].Check(&llm.GuardView{Prompt: prompt, Output: []uint32{3, 4}, Text: []byte("xy"),
			Ends: []uint32{1, 2}})
		if err != nil {
			t.Error(err)
		}
		return verdict.Position, seq.Drafters[0].Draft(llm.History{Prompt: prompt}, nil, make([]uint32, 4))
	}
	run := func(h *heardProgram) error {
		p, rest, err := s.BindProgram(t.Context(), []Call{{Name: "p", Params: []byte(`{"end":"</think>"}`)}})
		if err != nil || p == nil || len(rest) != 0 {
			t.Error(p, rest, err)
			return err
		}
		defer p.Close()
		return p.Run(t.Context(), 1, []byte(`{"settings":{},"prompt_count":1}`), h)
	}
	hear := func() *heardProgram {
		return &heardProgram{Synthetic: program.NewSynthetic(guesttest.NewWords(), prompt)}
	}

	calls := []Call{{Name: "g"}, {Name: "d"}}
	running := bind(t, s, 1, calls...)
	slow := hear()
	slow.reached, slow.goOn = make(chan struct{}), make(chan struct{})
	reached, done := slow.reached, make(chan error, 1)
	go func() { done <- run(slow) }()
	<-reached
	var old []*version
	for i, sp := range specs {
		old = append(old, s.names[sp.Name].current)
		write(t, sp.Source, wasm[1][i])
	}
	reload(t, s, specs, []string{"g", "d", "p"}, nil, nil, nil)

	for _, v := range old {
		select {
		case <-v.guest.Drained():
			t.Error("freed before its last request")
		default:
		}
	}
	fresh, quick := bind(t, s, 1, calls...), hear()
	if err := run(quick); err != nil {
		t.Error(err)
	}
	close(slow.goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, b := range []*Bound{running, fresh} {
		released, guessed := look(b)
		if want := [2][2]int{{2, 2}, {0, 3}}[i]; [2]int{released, guessed} != want {
			t.Errorf("request %d: %d tokens went out, %d were guessed, want %v", i, released, guessed, want)
		}
		heard, want := []*heardProgram{slow, quick}[i].heard, []string{before, after}[i]
		if !bytes.Contains([]byte(heard), []byte(want)) {
			t.Errorf("program %d appended %q, want %s", i, heard, want)
		}
		b.Close()
	}
	for _, v := range old {
		<-v.guest.Drained()
	}
	for _, e := range s.order {
		if st := e.status(); e.current.refs.Load() != 1 || len(e.totals.live) != 1 || st.Stats.InstancesOut != 0 {
			t.Errorf("%s: %d references, %d live versions, %+v", e.name, e.current.refs.Load(), len(e.totals.live),
				st.Stats)
		}
	}
}

// TestRunsKeepVersions: the runs of a program have the plugins of its request at the versions that it began with, also
// those that are not there any more, and none that applies always since. Others that a run names are those of now.
func TestRunsKeepVersions(t *testing.T) {
	a, b, c := spec(t, "a", bias(1).Wasm()), spec(t, "b", bias(1).Wasm()), spec(t, "c", bias(1).Wasm())
	b.Apply = ApplyAlways
	s := open(t, Options{Specs: []Spec{a, b, c}})
	guards, others, err := s.BindOuter(t.Context(), []Call{{Name: "a"}})
	if err != nil || guards != nil || others == nil {
		t.Fatal(guards, others, err)
	}
	run := func(calls ...Call) (did float32) {
		t.Helper()
		in, err := s.BindInner(t.Context(), calls, others)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := in.Begin(t.Context(), prompt, 16, []uint64{1}); err != nil {
			t.Fatal(err)
		}
		seq := in.Sequence(0)
		defer in.Release(0)
		x := row()
		before := x[5]
		for _, p := range seq.Processors {
			if _, err := p.Run(prompt, nil, x); err != nil {
				t.Fatal(err)
			}
		}
		return x[5] - before
	}
	if did := run(Call{Name: "a"}); did != 2 {
		t.Errorf("before the swap: %v", did)
	}
	old := s.names["a"].current
	write(t, a.Source, bias(10).Wasm())
	write(t, c.Source, bias(100).Wasm())
	c.Apply = ApplyAlways
	specs := []Spec{a, c}
	if _, err := s.Reload(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		calls []Call
		want  float32
	}{{[]Call{{Name: "a"}}, 2}, {nil, 1}, {[]Call{{Name: "b"}}, 1}, {[]Call{{Name: "c"}, {Name: "a"}}, 102}} {
		if did := run(x.calls...); did != x.want {
			t.Errorf("%v: %v, want %v", x.calls, did, x.want)
		}
	}
	others.Close()
	<-old.guest.Drained()
	others = nil // a request that had none
	if did := run(Call{Name: "a"}); did != 10 {
		t.Errorf("a later request: %v", did)
	}
}
