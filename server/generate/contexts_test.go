package generate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/sdk/abi"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// programs is user code with one program, that is a function.
type programs func(h *generate.Contexts) error

func (programs) FindProgram([]generate.PluginCall) (string, int) { return "program", 2 }

func (p programs) Bind(context.Context, []generate.PluginCall, *generate.Conversation, time.Time) (generate.BoundCode,
	generate.Rendered, error) {
	return boundProgram{run: p}, generate.Rendered{}, nil
}

// boundProgram begins nothing but the program. Its interface is nil: programs here render nothing.
type boundProgram struct {
	generate.BoundProgram
	run programs
	no  error // of a run's user code
}

func (p boundProgram) Begin(_ context.Context, w *generate.Wanted) (generate.Begun, error) {
	if w.Inner {
		return generate.Begun{}, p.no
	}
	return generate.Begun{}, nil
}
func (boundProgram) Skipped() []generate.Skip                           { return nil }
func (boundProgram) Close()                                             {}
func (boundProgram) Calls() []generate.PluginCall                       { return nil }
func (p boundProgram) BindRun([]generate.PluginCall) generate.BoundCode { return p }

func (p boundProgram) RunProgram(_ context.Context, _ uint64, _ []byte, h *generate.Contexts) error {
	return p.run(h)
}

// TestDropGivesExplanationsBack: runs that a program drops under way take no explanations from later ones.
func TestDropGivesExplanationsBack(t *testing.T) {
	const tokens = 12
	program := programs(func(h *generate.Contexts) error {
		for range 300 { // together more than may be explained
			c, err := h.Fork(0)
			if err == nil {
				err = h.Start(c, nil)
			}
			if err == nil {
				err = h.Drop(c)
			}
			if err != nil {
				return err
			}
		}
		err := h.Start(0, nil)
		if err == nil {
			_, _, err = h.Wait([]int{0}, false)
		}
		if err != nil {
			return err
		}
		return h.Emit(0, 2, tokens)
	})
	l := generatetest.Limits()
	l.Vocab = countingVocab
	s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
	s.WithUserCode(program)
	run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(tokens)),
		Explain: &generate.Explain{}, Plugins: []llm.PluginCall{{Name: "program"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	got, err := run.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Best.Explained); n != tokens {
		t.Errorf("%d explanations of %d tokens: %+v", n, tokens, got.Best.Explained)
	}
}

// lateMasker is a masker whose Accept never fails.
type lateMasker struct{}

func (lateMasker) Mask([]uint32) (bool, error) { return false, nil }
func (lateMasker) Accept(llm.Token) error      { return nil }
func (lateMasker) AcceptNow(t llm.Token) error { return fmt.Errorf("no token %d", t) }

// heldRuns are programs whose runs have it.
type heldRuns struct{ programs }

func (p heldRuns) Bind(context.Context, []generate.PluginCall, *generate.Conversation, time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	return heldProgram{boundProgram{run: p.programs}}, generate.Rendered{}, nil
}

type heldProgram struct{ boundProgram }

func (p heldProgram) BindRun([]generate.PluginCall) generate.BoundCode { return p }
func (p heldProgram) Begin(_ context.Context, w *generate.Wanted) (generate.Begun, error) {
	if !w.Inner {
		return generate.Begun{}, nil
	}
	return generate.Begun{Sequence: func(int) sample.Plugins { return sample.Plugins{Masker: lateMasker{}} }}, nil
}

// TestGrammarFromAtOnce: a program learns from the start of a run that its grammar does not admit what is there, also
// where the grammar puts off what it accepts.
func TestGrammarFromAtOnce(t *testing.T) {
	var got error
	code := heldRuns{func(h *generate.Contexts) error {
		got = h.Start(0, []byte(`{"grammar":{"language":"x","source":"y"},"grammar_from":1}`))
		return h.EmitText("aa")
	}}
	l := generatetest.Limits()
	l.Vocab = countingVocab
	s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
	s.WithUserCode(code)
	run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(4)),
		Plugins: []llm.PluginCall{{Name: "program"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if _, err := run.Collect(t.Context()); err != nil {
		t.Error(err)
	}
	if no := (*llm.ProgramError)(nil); !errors.As(got, &no) || no.Status != abi.ProgramGrammar {
		t.Errorf("%v", got)
	}
}

// strandedRuns are programs whose runs have a mask that fails and is no plugin's; guards may read the text.
type strandedRuns struct {
	programs
	guarded bool
	noted   *error
}

func (p strandedRuns) Bind(context.Context, []generate.PluginCall, *generate.Conversation, time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	return strandedProgram{boundProgram{run: p.programs}, p}, generate.Rendered{}, nil
}

type strandedProgram struct {
	boundProgram
	of strandedRuns
}

func (p strandedProgram) BindRun([]generate.PluginCall) generate.BoundCode { return p }
func (p strandedProgram) RunFailed(err error)                              { *p.of.noted = err }
func (p strandedProgram) Begin(_ context.Context, w *generate.Wanted) (generate.Begun, error) {
	if !w.Inner {
		return generate.Begun{Guarded: p.of.guarded}, nil
	}
	return generate.Begun{Sequence: func(int) sample.Plugins { return sample.Plugins{Masker: strandedMasker{}} }}, nil
}

type strandedMasker struct{ lateMasker }

func (strandedMasker) Mask([]uint32) (bool, error) { return false, errors.New("secret") }

// TestRunFailuresNameTheProgram: where a run fails and no plugin is to blame, the error names the program, and its log
// has it, also where guards read the text: the client is told no more then.
func TestRunFailuresNameTheProgram(t *testing.T) {
	for guarded, want := range map[bool]string{
		false: "plugin failed: plugin program: a run of it failed: mask: secret",
		true:  "plugin failed: plugin program: a run of it failed; more is in its log",
	} {
		var noted error
		code := strandedRuns{func(h *generate.Contexts) error {
			err := h.Start(0, nil)
			if err == nil {
				_, _, err = h.Wait([]int{0}, false)
			}
			return err
		}, guarded, &noted}
		l := generatetest.Limits()
		l.Vocab = countingVocab
		s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
		s.WithUserCode(code)
		run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(4)),
			Plugins: []llm.PluginCall{{Name: "program"}}})
		if err == nil {
			_, err = run.Collect(t.Context())
			run.Close()
		}
		if err == nil || err.Error() != want || !errors.Is(err, llm.ErrPlugin) {
			t.Errorf("guarded %v: %v, want %q", guarded, err, want)
		}
		if noted == nil || noted.Error() != "plugin failed: mask: secret" {
			t.Errorf("guarded %v: its log has %v", guarded, noted)
		}
	}
}

// brokenRuns are programs whose runs have a plugin that fails with an error.
type brokenRuns struct {
	programs
	no error
}

func (p brokenRuns) Bind(context.Context, []generate.PluginCall, *generate.Conversation, time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	return boundProgram{run: p.programs, no: p.no}, generate.Rendered{}, nil
}

// TestIdle: a program that gives up because a plugin of its run failed, or is off, does not refuse its request, as it
// does for a plugin's or its own rule.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		no   error
		idle bool
	}{
		{&generate.Invalid{Msg: "no such parameter"}, true},
		{fmt.Errorf("%w: plugin a: switched off for this client", llm.ErrPlugin), false},
	} {
		idle := !c.idle
		code := brokenRuns{func(h *generate.Contexts) error {
			err := h.Start(0, nil)
			idle = h.Idle()
			return err
		}, c.no}
		l := generatetest.Limits()
		l.Vocab = countingVocab
		s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
		s.WithUserCode(code)
		run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(4)),
			Plugins: []llm.PluginCall{{Name: "program"}}})
		if err == nil {
			run.Close()
			t.Error("it began")
		}
		if idle != c.idle {
			t.Errorf("%v: idle %v", c.no, idle)
		}
	}
}

// TestForkKeepsWhatIsKnown: what is known of a fork's tokens does not change with those of the context that it was
// forked from.
func TestForkKeepsWhatIsKnown(t *testing.T) {
	const tokens = 12
	program := programs(func(h *generate.Contexts) error {
		err := h.Start(0, nil)
		if err == nil {
			_, _, err = h.Wait([]int{0}, false)
		}
		if err != nil {
			return err
		}
		c, err := h.Fork(0)
		if err == nil {
			err = h.Rewind(0, 2)
		}
		if err == nil {
			err = h.Push(0, make([]uint32, tokens)) // which nobody picked
		}
		if err != nil {
			return err
		}
		return h.Emit(c, 2, tokens)
	})
	l := generatetest.Limits()
	l.Vocab = countingVocab
	s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
	s.WithUserCode(program)
	run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(tokens)),
		Explain: &generate.Explain{}, Plugins: []llm.PluginCall{{Name: "program"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	got, err := run.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Best.Tokens); n != tokens {
		t.Fatalf("%d tokens", n)
	}
	for i, x := range got.Best.Tokens {
		if x.Logprob == 0 {
			t.Errorf("token %d, which the model picked, has the log-probability %v", i, x.Logprob)
		}
	}
}
