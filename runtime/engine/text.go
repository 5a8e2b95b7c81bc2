package engine

import (
	"tgi/runtime/llm"
	"tgi/runtime/stop"
)

// detokContext is how many of the prompt's last tokens a detokenizer gets, as in
// text-generation-inference: enough to know whether a word continues.
const detokContext = 5

// transcript turns the tokens of one sequence into text and finds stop strings.
type transcript struct {
	codec   Codec
	detok   Detokenizer
	matcher *stop.Matcher
	visible []byte // the text so far without special tokens
	// recent holds the lengths of the last pieces, from which visibleOf computes the
	// visible part of a stop string; it reaches back as far as the longest stop string.
	recent      []span
	recentBytes int  // bytes in recent
	longest     int  // the longest stop string
	skip        int  // bytes that are still to be left out
	over        bool // a stop string was found, and the text went on behind it
}

type span struct {
	bytes   int
	visible bool
}

// newTranscript returns a transcript that leaves out the first skip bytes of the text.
func newTranscript(c Codec, prompt []llm.Token, stops []string, skip int) *transcript {
	t := &transcript{
		skip:    skip,
		codec:   c,
		detok:   c.Stream(lastTokens(prompt, detokContext)),
		matcher: stop.New(stops),
	}
	for _, s := range stops {
		t.longest = max(t.longest, len(s))
	}
	return t
}

// lastTokens returns the last n tokens.
func lastTokens(list []llm.Token, n int) []llm.Token { return list[max(len(list)-n, 0):] }

// add appends a token. hidden says that its text is not part of the visible text. The
// detokenizer never sees hidden tokens, so a character that is spread over the tokens
// around one is decoded whole, as when the output is decoded at once. stop and stopBytes
// are set if the text now contains a stop string; text is then cut after it.
func (t *transcript) add(tok llm.Token, hidden bool) (text, stop string, stopBytes int) {
	text = t.decode(tok, hidden)
	stop, cut := t.matcher.Feed(text)
	if stop != "" {
		t.over = cut < len(text)
		text = text[:cut]
	}
	t.record(text, !hidden)
	if stop != "" {
		stopBytes = t.visibleOf(len(stop))
	}
	return text, stop, stopBytes
}

// last appends the token that ends the sequence for another reason than a stop string,
// and the rest of an incomplete character. After a hidden token that rest is only part
// of the visible text.
func (t *transcript) last(tok llm.Token, hidden bool) (text string) {
	text = t.decode(tok, hidden)
	rest := t.cut(t.detok.Flush())
	if !hidden {
		text += rest
		rest = text
	}
	t.visible = append(t.visible, rest...)
	return text
}

func (t *transcript) decode(tok llm.Token, hidden bool) string {
	if hidden {
		return t.codec.Text(tok)
	}
	return t.cut(t.detok.Next(tok))
}

// cut leaves out what is to be skipped of a piece.
func (t *transcript) cut(text string) string {
	n := min(t.skip, len(text))
	t.skip -= n
	return text[n:]
}

// record records a piece.
func (t *transcript) record(text string, visible bool) {
	if visible {
		t.visible = append(t.visible, text...)
	}
	if t.longest == 0 || text == "" {
		return
	}
	t.recent = append(t.recent, span{len(text), visible})
	t.recentBytes += len(text)
	drop := 0
	for t.recentBytes-t.recent[drop].bytes >= t.longest {
		t.recentBytes -= t.recent[drop].bytes
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
