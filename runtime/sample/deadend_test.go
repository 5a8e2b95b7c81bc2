package sample

import (
	"errors"
	"testing"

	"tgi/runtime/llm"
)

// picky is a processor with a name.
type picky struct {
	name    string
	process func(st *Step) error
}

func (p picky) Name() string { return p.name }

func (p picky) Process(_ History, st *Step) error { return p.process(st) }

// TestDeadEnd: where a processor forbids all that others leave, the error names all that take part, and says that the
// request is at fault and no plugin. A beam ends there without an error.
func TestDeadEnd(t *testing.T) {
	mask := func() *script { return &script{steps: [][]llm.Token{{0, 1}}} }
	harmless := picky{"first", func(*Step) error { return nil }}
	dead := picky{"second", func(*Step) error { return llm.ErrDeadEnd }}
	forcing := picky{"third", func(st *Step) error { st.Force, st.ForcedBy = 2, "third"; return nil }}
	for _, c := range []struct {
		plug Plugins
		want string
	}{
		{Plugins{Masker: mask(), Processors: []Processor{dead}},
			"no token is left to pick: plugin second forbids every token that is left by the grammar"},
		{Plugins{Masker: mask(), Processors: []Processor{harmless, dead}},
			"no token is left to pick: plugin second forbids every token that is left by the grammar and plugin first"},
		{Plugins{Processors: []Processor{dead}},
			"no token is left to pick: plugin second forbids every token that is left by the model"},
		{Plugins{Masker: mask(), Processors: []Processor{forcing}},
			"no token is left to pick: plugin third forces token 2, which is forbidden by the grammar"},
	} {
		chain, err := New(off(), 3, nil, c.plug)
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain.Pick(History{Prompt: []llm.Token{1}}, []float32{1, 2, 3})
		if err == nil || err.Error() != c.want || !errors.Is(err, llm.ErrInvalid) || errors.Is(err, llm.ErrPlugin) ||
			!errors.Is(err, ErrNoToken) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	chain, err := New(off(), 3, nil, Plugins{Processors: []Processor{dead}})
	if err != nil {
		t.Fatal(err)
	}
	if list, _, err := chain.Branches(History{Prompt: []llm.Token{1}}, []float32{1, 2, 3}, Beam{N: 2}); err != nil ||
		len(list) != 0 {
		t.Errorf("a beam: %v, %v", list, err)
	}
}
