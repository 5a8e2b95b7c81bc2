package engine

import "tgi/runtime/llm"

// detokContext is how many of the prompt's last tokens a detokenizer is shown, as
// many as in text-generation-inference: enough to know whether a word goes on.
const detokContext = 5

// transcript turns the tokens of one sequence into text and says where it ends.
type transcript struct {
	codec   Codec
	detok   Detokenizer
	stop    *stopMatcher
	visible []byte // the text so far without special tokens
	// recent holds the lengths of the last pieces, so that the visible part of a
	// stop string can be told; it is kept only as far back as a stop string reaches.
	recent  []span
	reach   int // bytes in recent
	longest int // the longest stop string
}

type span struct {
	bytes   int
	visible bool
}

func newTranscript(c Codec, prompt []llm.Token, stops []string) *transcript {
	t := &transcript{
		codec: c,
		detok: c.Stream(prompt[max(len(prompt)-detokContext, 0):]),
		stop:  newStopMatcher(stops),
	}
	for _, s := range stops {
		t.longest = max(t.longest, len(s))
	}
	return t
}

// add appends a token. hidden says that its text is not part of the visible text.
// The detokenizer never sees hidden tokens: a character that is spread over the
// tokens around one comes out whole, as it does when the output is decoded at once.
// stop and stopBytes are set when the text came to hold a stop string, in which
// case text is cut behind it.
func (t *transcript) add(tok llm.Token, hidden bool) (text, stop string, stopBytes int) {
	text = t.spell(tok, hidden)
	stop, cut := t.stop.feed(text)
	if stop != "" {
		text = text[:cut]
	}
	t.keep(text, !hidden)
	if stop != "" {
		stopBytes = t.visibleOf(len(stop))
	}
	return text, stop, stopBytes
}

// last appends the token that ends the sequence for another reason than a stop
// string, and what is held back of an incomplete character. Behind a hidden token
// the latter is only part of the visible text.
func (t *transcript) last(tok llm.Token, hidden bool) (text string) {
	text = t.spell(tok, hidden)
	rest := t.detok.Flush()
	if !hidden {
		text += rest
		rest = text
	}
	t.visible = append(t.visible, rest...)
	return text
}

func (t *transcript) spell(tok llm.Token, hidden bool) string {
	if hidden {
		return t.codec.Text(tok)
	}
	return t.detok.Next(tok)
}

// keep records a piece.
func (t *transcript) keep(text string, visible bool) {
	if visible {
		t.visible = append(t.visible, text...)
	}
	if t.longest == 0 || text == "" {
		return
	}
	t.recent = append(t.recent, span{len(text), visible})
	t.reach += len(text)
	drop := 0
	for t.reach-t.recent[drop].bytes >= t.longest {
		t.reach -= t.recent[drop].bytes
		drop++
	}
	t.recent = t.recent[:copy(t.recent, t.recent[drop:])]
}

// visibleOf returns how many of the last n bytes of all text are visible.
func (t *transcript) visibleOf(n int) (visible int) {
	for i := len(t.recent) - 1; i >= 0 && n > 0; i-- {
		take := min(t.recent[i].bytes, n)
		n -= take
		if t.recent[i].visible {
			visible += take
		}
	}
	return visible
}
