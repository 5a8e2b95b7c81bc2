package plugintest

import (
	"fmt"
	"unicode/utf8"

	"tgi/sdk/abi"
	"tgi/sdk/go/guard"
	"tgi/sdk/go/internal/host"
)

// Watched is one sequence of a guard: what it holds back, and what a client has.
type Watched struct {
	// Shown is the text that went out.
	Shown string
	// Tokens is the sequence, the prompt first, without what was taken back.
	Tokens []uint32

	guard                   guard.Guard
	prompt, released, known int
	seen                    int // bytes of the text that went out, or were replaced
}

// Watch starts a sequence of a guard as the server does for a request.
func Watch(p guard.Plugin, params string, prompt ...uint32) (*Watched, error) {
	g, err := p.Begin([]byte(params), prompt)
	if err != nil {
		return nil, err
	}
	n := len(prompt)
	return &Watched{Tokens: append([]uint32(nil), prompt...), guard: g, prompt: n, released: n, known: n}, nil
}

// Push shows the guard a token and does what it says, but for biases: what is
// taken back is gone from Tokens, what is inserted is there. reason is one of
// abi.ReasonNone to abi.ReasonGuard. After a replacement the guard is asked
// again while tokens are held back, as by the server. A position or edits that
// the server refuses are an error.
func (w *Watched) Push(token, reason uint32) (guard.Result, error) {
	w.Tokens = append(w.Tokens, token)
	for {
		s, text := w.step(reason)
		if err := w.guard.Check(s); err != nil {
			return guard.Result{}, err
		}
		w.known = len(w.Tokens)
		r := s.Result()
		if err := checkPosition(s); err != nil {
			return guard.Result{}, err
		}
		switch r.Verdict {
		case abi.VerdictRewind, abi.VerdictInsert:
			ids, _ := host.Current.Encode(r.Text)
			w.Tokens = append(w.Tokens[:r.Position:r.Position], ids...)
			w.known = r.Position
			return r, nil
		case abi.VerdictReplace:
			if err := checkEdits(s, w.end(s, r.Position)-w.seen+s.Context); err != nil {
				return guard.Result{}, err
			}
			w.Shown += r.Replacement(text[w.seen:w.end(s, r.Position)], s.Context)
		default:
			w.Shown += string(text[w.seen:w.end(s, r.Position)])
		}
		w.seen, w.released = w.end(s, r.Position), r.Position
		if r.Verdict != abi.VerdictReplace || w.released == len(w.Tokens) {
			return r, nil
		}
	}
}

// checkPosition says what the server would of a step's position.
func checkPosition(s *guard.Step) error {
	r := s.Result()
	least, most := s.Released, len(s.Tokens)
	switch {
	case r.Verdict == abi.VerdictRelease && s.Reason != abi.ReasonNone:
		least = most
	case r.Verdict == abi.VerdictRewind:
		most--
	case r.Verdict == abi.VerdictReplace:
		least++
	}
	if r.Position < least || r.Position > most {
		return fmt.Errorf("verdict %s: position %d, want %d to %d", abi.VerdictNames[r.Verdict], r.Position, least,
			most)
	}
	return nil
}

// checkEdits says what the server would of a step's edits; the text of the
// tokens before their position ends at end.
func checkEdits(s *guard.Step, end int) error {
	edits := s.Result().Edits
	if len(edits) > abi.MaxEdits {
		return fmt.Errorf("verdict replace: %d edits, the limit is %d", len(edits), abi.MaxEdits)
	}
	inside := func(at int) bool { return at < len(s.Text) && !utf8.RuneStart(s.Text[at]) }
	done, size := s.Context, end-s.Context
	for i, e := range edits {
		switch {
		case e.From < done || e.To < e.From || e.To > end:
			return fmt.Errorf("verdict replace: edit %d takes bytes %d to %d, want them in order from %d to %d", i,
				e.From, e.To, done, end)
		case inside(e.From) || inside(e.To):
			return fmt.Errorf("verdict replace: edit %d takes bytes %d to %d, which are no whole characters", i,
				e.From, e.To)
		case !utf8.ValidString(e.Words):
			return fmt.Errorf("verdict replace: the words of edit %d are not UTF-8", i)
		}
		done, size = e.To, size+e.From-e.To+len(e.Words)
	}
	if edits != nil && size > abi.MaxGuardText {
		return fmt.Errorf("verdict replace: a text of %d bytes, the limit is %d", size, abi.MaxGuardText)
	}
	return nil
}

// end returns where the text before a position ends.
func (w *Watched) end(s *guard.Step, position int) int {
	if position == w.released {
		return w.seen
	}
	return int(s.Ends[position-w.released-1]) + w.seen - s.Context
}

// step is what the guard sees.
func (w *Watched) step(reason uint32) (s *guard.Step, text []byte) {
	var ends []uint32
	for i, id := range w.Tokens[w.prompt:] {
		if flags, _ := host.Current.TokenFlags(id); flags&abi.TokenSpecial == 0 {
			b, _ := host.Current.TokenBytes(id)
			text = append(text, b...)
		}
		if i+w.prompt >= w.released {
			ends = append(ends, uint32(len(text)))
		}
	}
	from := max(w.seen-abi.MaxContext, 0)
	for i := range ends {
		ends[i] -= uint32(from)
	}
	s = &guard.Step{Tokens: w.Tokens, Prompt: w.prompt, New: len(w.Tokens) - w.known, Released: w.released,
		Text: text[from:], Context: w.seen - from, Ends: ends, Reason: reason}
	s.Reset()
	return s, text
}
