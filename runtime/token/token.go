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
//
// The reasons behind it: docs/rationale/tokenizers.md.
package token

import (
	"errors"
	"iter"
	"slices"
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
	rawFinder, normalizedFinder finder
	pre                         []pretoken
	post                        post
	decoders                    []decoder

	// tokens[id] is the token as the vocabulary spells it; known tells an
	// empty one from a hole.
	tokens []string
	known  []bool
	// decoderForms[id] is what the decoder gets, where that is not the token: an
	// added token's normalized form.
	decoderForms map[uint32]string
	ids          map[string]uint32
	special      map[string]bool
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
	ids := t.encode(toValidUTF8(text), nil)
	if !addSpecial {
		return ids
	}
	return t.post.apply(ids)
}

// encode returns the tokens of a text that is UTF-8.
func (t *Tokenizer) encode(s string, data dataSpans) []uint32 {
	ids := make([]uint32, 0, len(s)/4+4)
	e := newEncoder(t, data, func(id uint32, _ text, _, _ int, _ string) bool {
		ids = append(ids, id)
		return true
	})
	e.run(s)
	return ids
}

// EncodeOffsets is Encode with each token's place in the input. Where the
// input is not UTF-8, offsets count the characters after U+FFFD took the
// place of what is broken.
func (t *Tokenizer) EncodeOffsets(text string, addSpecial bool) []Piece {
	return slices.AppendSeq(make([]Piece, 0, len(text)/4+8), t.Pieces(text, addSpecial))
}

// Pieces is EncodeOffsets, one token after the other. The work goes on as they
// are asked for, and between two of them it holds little: the text, the word
// that is being cut, and where the normalizer changed a stretch between two
// added tokens, or a pre-tokenizer took it as one, that stretch with four bytes
// for each of its own.
func (t *Tokenizer) Pieces(text string, addSpecial bool) iter.Seq[Piece] {
	return t.pieces(toValidUTF8(text), nil, addSpecial)
}

// pieces encodes a text that is UTF-8.
func (t *Tokenizer) pieces(text string, data dataSpans, addSpecial bool) iter.Seq[Piece] {
	template := t.post.template
	if !addSpecial || template == nil {
		template = []templatePart{{sequence: true}}
	}
	return func(yield func(Piece) bool) {
		index := newCharIndex(text)
		for _, part := range template {
			for _, id := range part.ids {
				if !yield(Piece{ID: id}) {
					return
				}
			}
			if part.sequence && !t.sequence(text, data, index, yield) {
				return
			}
		}
	}
}

// sequence yields the tokens of the text itself. It returns false when yield
// did.
func (t *Tokenizer) sequence(s string, data dataSpans, index charIndex, yield func(Piece) bool) bool {
	head := true
	return newEncoder(t, data, func(id uint32, x text, start, end int, value string) bool {
		o := x.origin(start, end)
		o = span{index.char(o.start), index.char(o.end)}
		for _, addPrefixSpace := range t.post.trims {
			o = trim(o, value, head, addPrefixSpace)
		}
		head = false
		return yield(Piece{id, index.cut(o.start, o.end), o.start, o.end})
	}).run(s)
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
	s, ok := t.decoderForm(id)
	return ok && t.special[s]
}

// decoderForm returns what the decoder gets for an id.
func (t *Tokenizer) decoderForm(id uint32) (string, bool) {
	if s, ok := t.decoderForms[id]; ok {
		return s, true
	}
	return t.Token(id)
}

// Decode returns the text of the tokens, without special ones if skipSpecial.
// Ids that are not in the vocabulary have no text. Bytes that do not form
// characters come out as U+FFFD.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	var out stringSink
	d := newChain(t.decoders, &out, true)
	for _, id := range ids {
		s, ok := t.decoderForm(id)
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
	s.in = newChain(t.decoders, &streamEnd{out: &s.out}, false)
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
	if token, ok := s.t.decoderForm(id); ok {
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

// encoder is one run of a text through the pipeline. Each of its stages returns
// false when there is no use in going on.
type encoder struct {
	t *Tokenizer
	// emit takes a token, which stands for the bytes [start, end) of x and which
	// the vocabulary spells as value.
	emit    func(id uint32, x text, start, end int, value string) bool
	symbols []symbol
	// data is where withheld tokens are not recognised.
	data dataSpans
	// stages[n] takes text to the n-th pre-tokenizer, the last one to the model.
	stages []func(text) bool
}

func newEncoder(t *Tokenizer, data dataSpans, emit func(id uint32, x text, start, end int, value string) bool) *encoder {
	e := &encoder{t: t, emit: emit, data: data, stages: make([]func(text) bool, len(t.pre)+1)}
	e.stages[len(t.pre)] = e.word
	for n, p := range t.pre {
		e.stages[n] = func(x text) bool { return p.apply(x, e.stages[n+1]) }
	}
	return e
}

// run encodes s, which is valid UTF-8.
func (e *encoder) run(s string) bool {
	whole := original(s)
	return e.t.rawFinder.split(whole, e.data, func(t *addedToken, start, end int) bool {
		if t != nil {
			return e.emit(t.id, whole, start, end, s[start:end])
		}
		x := e.t.normalizer.normalize(whole.slice(start, end))
		return e.t.normalizedFinder.split(x, e.data, func(t *addedToken, start, end int) bool {
			if t != nil {
				return e.emit(t.id, x, start, end, x.s[start:end])
			}
			return e.stages[0](x.slice(start, end))
		})
	})
}

// word emits the tokens of a word.
func (e *encoder) word(x text) bool {
	m := e.t.model
	for at := 0; at < len(x.s); {
		end := at + m.segmentEnd(x.s[at:])
		e.symbols = m.encode(x.s[at:end], e.symbols[:0])
		if m.barred != nil && e.data != nil {
			e.symbols = e.withoutBarred(x, at, end, e.symbols)
		}
		for _, s := range e.symbols {
			if !e.emit(s.id, x, at, at+int(s.size), e.t.tokens[s.id]) {
				return false
			}
			at += int(s.size)
		}
		at = end
	}
	return true
}
