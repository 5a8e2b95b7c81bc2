package generate

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Reasoning is what a model may write before the calls or the answer that its grammar
// demands.
type Reasoning struct {
	// Open: the text begins inside it.
	Open bool
	// Begin are the texts that begin it, at the start of the text; End those that end it.
	// The grammar takes the first of End anywhere in it.
	Begin, End []string
}

// bounded puts the end of reasoning before the user code of each sequence: it takes
// half of what a sequence may generate, most tokens, so that there is room for what is
// demanded.
func (s *Service) bounded(plugins func(int) sample.Plugins, of *Reasoning, most int) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		first := &reasoningLimit{of: of, tok: s.tok, budget: max(1, most/2)}
		if plugins == nil {
			return first.code()
		}
		return sample.Join(first.code(), plugins(i))
	}
}

// reasoningLimit ends the reasoning of one sequence when its budget is used up: it
// forces the tokens of the text that ends it.
type reasoningLimit struct {
	of     *Reasoning
	tok    Tokenizer
	budget int // tokens

	text   []byte // of the sequence
	seen   int    // its tokens
	over   bool   // there is none, or it ended
	forced []llm.Token
	end    []llm.Token // what forced was in the beginning
	endAt  int         // tokens before end
}

// code is the limit as user code, which forks.
func (l *reasoningLimit) code() sample.Plugins {
	return sample.Plugins{Processors: []sample.Processor{l}, Fork: func() (sample.Plugins, error) {
		twin := *l
		twin.text, twin.forced = slices.Clone(l.text), slices.Clone(l.forced)
		return twin.code(), nil
	}}
}

// Name implements sample.Named.
func (*reasoningLimit) Name() string { return "reasoning_limit" }

// Rewind implements sample.Rewinder: the next call reads the text anew.
func (l *reasoningLimit) Rewind(h sample.History) error {
	l.text, l.seen, l.over, l.forced = l.text[:0], 0, false, nil
	if begun := len(h.Output) - l.endAt; begun > 0 && begun < len(l.end) {
		l.forced = l.end[begun:]
	} else if begun <= 0 {
		l.end = nil
	}
	return nil
}

// Process implements sample.Processor. It comes behind the grammar, which may demand
// something else: then it waits.
func (l *reasoningLimit) Process(h sample.History, s *sample.Step) error {
	if l.over {
		return nil
	}
	for _, t := range h.Output[l.seen:] {
		b, _ := l.tok.Bytes(t)
		l.text = append(l.text, b...)
	}
	l.seen = len(h.Output)
	inside := l.inside()
	if l.over || !inside || l.seen < l.budget {
		return nil
	}
	if len(l.forced) == 0 {
		if !whole(l.text) {
			return nil
		}
		l.forced = l.tok.EncodeSpans(l.of.End[0], nil)
		l.end, l.endAt = l.forced, l.seen
	}
	if len(l.forced) == 0 {
		return nil
	}
	t := l.forced[0]
	if uint64(t) >= uint64(len(s.Logits)) || math.IsInf(float64(s.Logits[t]), -1) {
		l.forced, l.end = nil, nil
		return nil
	}
	s.Force, l.forced = int64(t), l.forced[1:]
	return nil
}

// inside reports whether the text so far ends in reasoning; over is set where it does not
// and won't.
func (l *reasoningLimit) inside() bool {
	from := 0
	if !l.of.Open {
		may := false
		from = -1
		for _, m := range l.of.Begin {
			if bytes.HasPrefix(l.text, []byte(m)) {
				from = len(m)
			}
			may = may || bytes.HasPrefix([]byte(m), l.text)
		}
		if from < 0 {
			l.over = !may
			return false
		}
	}
	for _, m := range l.of.End {
		l.over = l.over || bytes.Contains(l.text[from:], []byte(m))
	}
	return !l.over
}

// whole reports whether text does not end inside a character.
func whole(text []byte) bool {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			return c < utf8.RuneSelf || utf8.FullRune(text[len(text)-n:])
		}
	}
	return true
}
