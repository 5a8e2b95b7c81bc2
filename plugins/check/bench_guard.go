package check

import (
	"tgi/plugins/guard"
	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
)

// checkName begins the names of the series of a guard's checks; the verdict follows.
const checkName = "check, "

// held is what a guard sees of a measured sequence. Its verdicts are applied, so that it works as in a server.
type held struct {
	checker  *guard.Checker
	text     []byte
	ends     []uint32 // of all tokens
	released int
}

func newHeld(s *guest.Session) *held { return &held{checker: guard.NewChecker(s)} }

// check shows the guard the last token, and cuts the sequence where it is taken back. It reports whether the guard is
// done, or the sequence.
func (t *turns) check() (stop bool, err error) {
	h := t.held
	h.text = append(h.text, t.g.Vocabulary().Bytes(t.output[len(t.output)-1])...)
	h.ends = append(h.ends, uint32(len(h.text)))
	seen := 0
	if h.released > 0 {
		seen = int(h.ends[h.released-1])
	}
	from := max(seen-llm.GuardContext, 0)
	view := llm.GuardView{Prompt: t.prompt, Output: t.output, Released: h.released, Text: h.text[from:],
		Context: seen - from}
	for _, end := range h.ends[h.released:] {
		view.Ends = append(view.Ends, end-uint32(from))
	}
	var v llm.Verdict
	err = t.measure(func() (err error) {
		v, err = h.checker.Check(&view)
		return err
	}, func(bool) string {
		if t.step < 0 {
			return ""
		}
		return checkName + v.Kind.String()
	})
	switch {
	case err != nil:
		return false, err
	case v.Kind == llm.VerdictRewind || v.Kind == llm.VerdictInsert:
		t.output, h.ends = t.output[:v.Position], h.ends[:v.Position]
		h.text = h.text[:0]
		for _, id := range t.output {
			h.text = append(h.text, t.g.Vocabulary().Bytes(id)...)
		}
	default:
		h.released = max(v.Position, len(t.output)-t.g.Description().Guard.Hold)
	}
	return v.Done || v.Kind == llm.VerdictStop, nil
}
