package generate_test

import (
	"testing"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestTightRun: a text that a program gave out as its run came ends by its length where the model had no room for more,
// though the client asked for more: it is not whole. It is what the program makes of it where that asked for so much,
// and where it emits something behind it.
func TestTightRun(t *testing.T) {
	l := generatetest.Limits()
	l.Vocab = countingVocab
	for _, c := range []struct {
		unseen   int // tokens before the run that no client sees
		settings string
		more     bool
		tokens   int // with that of its end, where there is room for one
		want     llm.Reason
	}{
		{unseen: 3, settings: `{"emit":true}`, tokens: l.MaxTotal - 4, want: llm.FinishLength},
		{settings: `{"emit":true}`, tokens: l.MaxTotal - 2, want: llm.FinishLength},
		{unseen: 3, settings: `{"emit":true,"max_tokens":4}`, tokens: 5, want: llm.FinishEOS},
		{unseen: 5, settings: `{"emit":true}`, more: true, tokens: l.MaxTotal - 4, want: llm.FinishEOS},
	} {
		program := programs(func(h *generate.Contexts) error {
			err := h.Push(0, make([]uint32, c.unseen))
			if err == nil {
				err = h.Start(0, []byte(c.settings))
			}
			if err == nil {
				_, _, err = h.Wait([]int{0}, false)
			}
			if err == nil && c.more {
				err = h.Emit(0, 2, 2)
			}
			return err
		})
		s := generate.New(generate.On(newEngine(t)), generatetest.Words{}, l, nil)
		s.WithUserCode(program)
		run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(l.MaxTotal - 2)),
			Plugins: []llm.PluginCall{{Name: "program"}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := run.Collect(t.Context())
		run.Close()
		if err != nil || len(got.Best.Tokens) != c.tokens || got.Best.Finish.Reason != c.want {
			t.Errorf("%+v: %d tokens, %v, %v", c, len(got.Best.Tokens), got.Best.Finish, err)
		}
	}
}
