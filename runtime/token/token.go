// Package token turns text into token ids and back, as a Hugging Face
// tokenizer.json says. It owns the file's whole pipeline: added tokens,
// normalizer, pre-tokenizer, byte-pair encoding, post-processor and decoder,
// and the incremental detokenizer that streams need. It knows no model, no
// request and no chat template.
//
// The reference is the Rust library `tokenizers`: ids, offsets and decoded
// text are the same. What the file asks for and this package does not have is
// an error of Load that names the key and the value; nothing is passed over.
// Two settings are not part of a tokenizer's meaning here and are ignored:
// truncation and padding, which belong to the request.
package token

import (
	"errors"
	"strings"
)

// ErrFormat is wrapped by every error of Load: the file is not a
// tokenizer.json, or asks for what this package does not do.
var ErrFormat = errors.New("tokenizer.json")

// Tokenizer encodes and decodes. It is immutable after Load (but for a cache
// of words that takes care of itself) and safe for concurrent use.
type Tokenizer struct {
	model      *bpe
	normalizer normalizers
	// found in the text as it came, and in the normalized text
	early, late finder
	pre         []pretoken
	post        post
	decoders    []decoder

	// tokens[id] is the token as the vocabulary spells it; known tells an
	// empty one from a hole.
	tokens []string
	known  []bool
	// spelled[id] is what the decoder gets, where that is not the token: an
	// added token's normalized form.
	spelled map[uint32]string
	ids     map[string]uint32
	special map[string]bool
}

// Piece is a token of a text.
type Piece struct {
	ID uint32
	// Text is the part of the input that the token stands for: its characters
	// [Start, End). It is empty for a token that the post-processor added. A
	// character spread over several tokens is the text of each of them.
	Text string
	// Start and End count characters (Unicode scalar values) of the input.
	Start, End int
}

// Encode returns the tokens of text; with addSpecial also those that the
// post-processor puts around it. Bytes that are not UTF-8 are taken for
// U+FFFD. The cost is O(n log n) in the length of the text, which must be
// below 2 GiB.
func (t *Tokenizer) Encode(text string, addSpecial bool) []uint32 {
	e := newEncoder(t, false)
	e.run(lossy(text))
	if !addSpecial {
		return e.ids
	}
	return t.post.apply(e.ids)
}

// EncodeOffsets is Encode with each token's place in the input. Where the
// input is not UTF-8, offsets count the characters after U+FFFD took the
// place of what is broken.
func (t *Tokenizer) EncodeOffsets(text string, addSpecial bool) []Piece {
	return t.pieces(lossy(text), nil, addSpecial)
}

// pieces encodes a text that is UTF-8.
func (t *Tokenizer) pieces(text string, data dataSpans, addSpecial bool) []Piece {
	e := newEncoder(t, true)
	e.data = data
	e.run(text)
	index := newCharIndex(text)
	for i, s := range e.spans {
		e.spans[i] = span{index.char(s.start), index.char(s.end)}
	}
	for _, addPrefixSpace := range t.post.trims {
		trim(e.spans, e.values, addPrefixSpace)
	}
	pieces := make([]Piece, 0, len(e.ids)+8)
	template := t.post.template
	if !addSpecial || template == nil {
		template = []templatePart{{sequence: true}}
	}
	for _, part := range template {
		for _, id := range part.ids {
			pieces = append(pieces, Piece{ID: id})
		}
		if !part.sequence {
			continue
		}
		for i, id := range e.ids {
			s := e.spans[i]
			pieces = append(pieces, Piece{id, index.cut(s.start, s.end), s.start, s.end})
		}
	}
	return pieces
}

// VocabSize returns one more than the largest id.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// Token returns the token of an id as the vocabulary spells it, and whether
// there is one.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(t.tokens)) || !t.known[id] {
		return "", false
	}
	return t.tokens[id], true
}

// ID returns the id of a token as the vocabulary spells it.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// IsSpecial reports whether Decode with skipSpecial passes over the token.
func (t *Tokenizer) IsSpecial(id uint32) bool {
	s, ok := t.spelling(id)
	return ok && t.special[s]
}

// spelling returns what the decoder gets for an id.
func (t *Tokenizer) spelling(id uint32) (string, bool) {
	if s, ok := t.spelled[id]; ok {
		return s, true
	}
	return t.Token(id)
}

// Decode returns the text of the tokens, without special ones if skipSpecial.
// Ids that are not in the vocabulary have no text. Bytes that do not form
// characters come out as U+FFFD.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	var out collect
	d := chain(t.decoders, &out, true)
	for _, id := range ids {
		s, ok := t.spelling(id)
		if ok && !(skipSpecial && t.special[s]) {
			d.feed(s, true)
		}
	}
	d.finish()
	return out.String()
}

// Stream decodes tokens one at a time. It belongs to one goroutine.
type Stream struct {
	t   *Tokenizer
	out strings.Builder
	in  sink
}

// Stream returns an incremental detokenizer for what follows context, the
// last tokens of the prompt (as many as the caller likes; a few are enough,
// none means the start of a text). The context's own text is not returned.
//
// With a byte-level decoder and no context, what Next and Flush return, put
// together, is what Decode returns for all tokens. With byte_fallback a
// character is returned as soon as it is complete, where Decode would take it
// back if the bytes behind it turn out to be broken.
func (t *Tokenizer) Stream(context []uint32) *Stream {
	s := &Stream{t: t}
	s.in = chain(t.decoders, &streamEnd{out: &s.out}, false)
	for _, id := range context {
		s.Next(id)
	}
	return s
}

// streamEnd writes into the builder of a Stream.
type streamEnd struct{ out *strings.Builder }

func (e *streamEnd) feed(s string, _ bool) { e.out.WriteString(s) }
func (e *streamEnd) finish()               {}

// Next returns the text that the token adds: "" while the bytes of a
// character are incomplete. Special tokens give their text. An id outside the
// vocabulary gives nothing.
func (s *Stream) Next(id uint32) string {
	s.out.Reset()
	if token, ok := s.t.spelling(id); ok {
		s.in.feed(token, true)
	}
	return s.out.String()
}

// Flush ends the stream and returns what was held back, U+FFFD for broken
// bytes. Nothing may follow.
func (s *Stream) Flush() string {
	s.out.Reset()
	s.in.finish()
	return s.out.String()
}

// encoder is one run of a text through the pipeline.
type encoder struct {
	t       *Tokenizer
	offsets bool
	ids     []uint32
	// With offsets: each token's place in bytes of the original, and where the
	// post-processor trims, which is seldom, its spelling.
	spans  []span
	values []string
	room   []symbol
	// data is where withheld tokens are not recognised.
	data dataSpans
	// stages[n] takes text to the n-th pre-tokenizer, the last one to the model.
	stages []func(text)
}

func newEncoder(t *Tokenizer, offsets bool) *encoder {
	e := &encoder{t: t, offsets: offsets, stages: make([]func(text), len(t.pre)+1)}
	e.stages[len(t.pre)] = e.word
	for n, p := range t.pre {
		e.stages[n] = func(x text) { p.apply(x, e.stages[n+1]) }
	}
	return e
}

// run encodes s, which is valid UTF-8.
func (e *encoder) run(s string) {
	e.ids = make([]uint32, 0, len(s)/4+4)
	if e.offsets {
		e.spans = make([]span, 0, len(s)/4+4)
	}
	whole := text{s: s}
	e.t.early.split(whole, e.data, func(t *addedToken, start, end int) {
		if t != nil {
			e.added(t, whole.slice(start, end))
			return
		}
		x := e.t.normalizer.normalize(whole.slice(start, end))
		e.t.late.split(x, e.data, func(t *addedToken, start, end int) {
			if part := x.slice(start, end); t != nil {
				e.added(t, part)
			} else {
				e.stages[0](part)
			}
		})
	})
}

// added emits an added token that stands for x.
func (e *encoder) added(t *addedToken, x text) {
	e.ids = append(e.ids, t.id)
	if e.offsets {
		e.place(x.origin(0, len(x.s)), x.s)
	}
}

// place notes where the last token comes from, and its spelling.
func (e *encoder) place(s span, value string) {
	e.spans = append(e.spans, s)
	if len(e.t.post.trims) > 0 {
		e.values = append(e.values, value)
	}
}

// word emits the tokens of a word.
func (e *encoder) word(x text) {
	m := e.t.model
	for at := 0; at < len(x.s); {
		end := at + m.part(x.s[at:])
		e.room = m.encode(x.s[at:end], e.room[:0])
		if m.barred != nil && e.data != nil {
			e.room = e.guarded(x, at, end, e.room)
		}
		for _, s := range e.room {
			e.ids = append(e.ids, s.id)
			if e.offsets {
				e.place(x.origin(at, at+int(s.size)), e.t.tokens[s.id])
			}
			at += int(s.size)
		}
		at = end
	}
}
