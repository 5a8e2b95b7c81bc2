package engine

import (
	"slices"

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
	find    finder
	visible []byte // the text so far without special tokens
	skip    int    // bytes that are still to be left out
	rest    string // what the last token has behind the stop string that was found
}

// finder finds stop strings, and what of them is visible.
type finder struct {
	matcher *stop.Matcher
	// recent holds the lengths of the last pieces, from which visibleOf computes the
	// visible part of a stop string; it reaches back as far as the longest stop string.
	recent      []span
	recentBytes int // bytes in recent
	longest     int // the longest stop string
}

type span struct {
	bytes   int
	visible bool
}

// newTranscript returns a transcript that leaves out the first skip bytes of the text.
func newTranscript(c Codec, prompt []llm.Token, stops []string, skip int) *transcript {
	return &transcript{
		skip:  skip,
		codec: c,
		detok: c.Stream(lastTokens(prompt, detokContext)),
		find:  newFinder(stops),
	}
}

func newFinder(stops []string) finder {
	f := finder{matcher: stop.New(stops)}
	for _, s := range stops {
		f.longest = max(f.longest, len(s))
	}
	return f
}

// lastTokens returns the last n tokens.
func lastTokens(list []llm.Token, n int) []llm.Token { return list[max(len(list)-n, 0):] }

// add appends a token. hidden says that its text is not part of the visible text. The
// detokenizer never sees hidden tokens, so a character that is spread over the tokens
// around one is decoded whole, as when the output is decoded at once. stop and stopBytes
// are set if the text now contains a stop string; text is then cut after it.
func (t *transcript) add(tok llm.Token, hidden bool) (text, stop string, stopBytes int) {
	text = t.decode(tok, hidden)
	stop, cut, stopBytes := t.find.feed(text, !hidden)
	if stop != "" {
		text, t.rest = text[:cut], text[cut:]
	}
	if !hidden {
		t.visible = append(t.visible, text...)
	}
	return text, stop, stopBytes
}

// last appends the token that ends the sequence for another reason than a stop string,
// and the rest of an incomplete character.
func (t *transcript) last(tok llm.Token, hidden bool) (text string) {
	text = t.decode(tok, hidden)
	if !hidden {
		t.visible = append(t.visible, text...)
	}
	return text + t.flush(hidden)
}

// flush appends the rest of an incomplete character, which it returns. After a hidden token
// that rest is only part of the visible text.
func (t *transcript) flush(hidden bool) string {
	rest := t.cut(t.detok.Flush())
	t.visible = append(t.visible, rest...)
	if hidden {
		return ""
	}
	return rest
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

// clone returns a finder that has seen the same text.
func (f *finder) clone() finder {
	return finder{f.matcher.Clone(), slices.Clone(f.recent), f.recentBytes, f.longest}
}

// forget has the finder see no text so far.
func (f *finder) forget() { f.matcher.Reset(); f.recent, f.recentBytes = f.recent[:0], 0 }

// feed takes a piece. If a stop string ends in it, it takes the piece up to there only, and returns the string, where
// it ends, and how many of its bytes are visible.
func (f *finder) feed(text string, visible bool) (stop string, cut, stopBytes int) {
	if stop, cut = f.matcher.Feed(text); stop == "" {
		f.record(len(text), visible)
		return "", 0, 0
	}
	f.record(cut, visible)
	return stop, cut, f.visibleOf(len(stop))
}

// pass takes all of a piece, whatever stop strings end in it.
func (f *finder) pass(text string, visible bool) {
	for {
		stop, cut, _ := f.feed(text, visible)
		if stop == "" {
			return
		}
		text = text[cut:]
	}
}

// record records a piece of n bytes.
func (f *finder) record(n int, visible bool) {
	if f.longest == 0 || n == 0 {
		return
	}
	f.recent = append(f.recent, span{n, visible})
	f.recentBytes += n
	drop := 0
	for f.recentBytes-f.recent[drop].bytes >= f.longest {
		f.recentBytes -= f.recent[drop].bytes
		drop++
	}
	f.recent = f.recent[:copy(f.recent, f.recent[drop:])]
}

// visibleOf returns how many of the last n bytes of all text are visible.
func (f *finder) visibleOf(n int) (visible int) {
	for i := len(f.recent) - 1; i >= 0 && n > 0; i-- {
		take := min(f.recent[i].bytes, n)
		n -= take
		if f.recent[i].visible {
			visible += take
		}
	}
	return visible
}
