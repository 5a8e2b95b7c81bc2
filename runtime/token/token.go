// Package token converts text to token ids and back as a Hugging Face tokenizer.json
// specifies. It implements the file's whole pipeline: added tokens, normalizer,
// pre-tokenizer, model (BPE, Unigram, WordPiece, WordLevel), post-processor and decoder, and the incremental
// detokenizer for streams. It knows nothing of models, requests and chat templates.
//
// The reference is the Rust library `tokenizers`: ids, offsets and decoded text are the
// same. Load refuses a file that needs something unsupported, with an error that names the
// key and the value. Only truncation and padding are ignored: they belong to the request.
//
// Callers are the wiring of a loaded model and, through it, the server and the engine. The
// package starts no goroutines. A Tokenizer is immutable, apart from a lock-free cache of
// words, and safe for concurrent use.
//
// The reasons behind it: docs/rationale/tokenizers.md.
package token

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"tgi/runtime/llm"
)

// ErrFormat is wrapped by every error of Load: the file is not a tokenizer.json, or needs
// something that this package does not support.
var ErrFormat = errors.New("tokenizer.json")

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	model      model
	normalizer normalizers
	// added tokens that are matched in the original text, and in the normalized text
	rawFinder, normalizedFinder finder
	pre                         []pretoken
	post                        post
	sides                       []pairPart // the template of two texts; nil without one
	decoders                    []decoder

	// tokens[id] is the token in the vocabulary; known tells an empty token from a gap.
	tokens []string
	known  []bool
	// decoderForms[id] is what the decoder gets if that is not the token itself: the
	// normalized form of an added token.
	decoderForms map[uint32]string
	ids          map[string]uint32
	special      map[string]bool

	// longest is how many bytes of a word a token can stand for, longestRaw how many of a text before it is
	// normalized; 0 is any number.
	longest, longestRaw int
}

// Piece is a token of a text.
type Piece = llm.Piece

// Encode returns the tokens of text; with addSpecial also those that the post-processor adds
// around it. Invalid UTF-8 is read as U+FFFD. The cost is O(n log n) in the length of the
// text, which must be below 2 GiB.
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

// EncodeOffsets is Encode with each token's position in the input. If the input is not valid
// UTF-8, offsets count characters after the replacement by U+FFFD.
func (t *Tokenizer) EncodeOffsets(text string, addSpecial bool) []Piece {
	return slices.AppendSeq(make([]Piece, 0, len(text)/4+8), t.Pieces(text, addSpecial))
}

// Pieces is EncodeOffsets as an iterator. It works lazily and keeps little memory: the text,
// the current word, and, if the normalizer changed the segment between two added tokens or a
// pre-tokenizer took it as one word, that segment with four bytes for each of its bytes.
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

// sequence yields the tokens of the text itself. It returns false if yield did.
func (t *Tokenizer) sequence(s string, data dataSpans, index charIndex, yield func(Piece) bool) bool {
	head := true
	return newEncoder(t, data, func(id uint32, x text, start, end int, value string) bool {
		o := x.origin(start, end)
		o = span{index.char(o.start), index.char(o.end)}
		for _, addPrefixSpace := range t.post.trims {
			o = trim(o, value, head, addPrefixSpace)
		}
		head = false
		return yield(Piece{ID: id, Text: index.cut(o.start, o.end), Start: o.start, End: o.end})
	}).run(s)
}

// VocabSize returns one more than the largest id.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// Token returns the token of an id in the vocabulary's spelling, and whether there is one.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(t.tokens)) || !t.known[id] {
		return "", false
	}
	return t.tokens[id], true
}

// ID returns the id of a token in the vocabulary's spelling.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Special reports whether Decode with skipSpecial skips the token.
func (t *Tokenizer) Special(id uint32) bool {
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

// Decode returns the text of the tokens, without special ones if skipSpecial. Ids outside the
// vocabulary have no text. Bytes that are not valid UTF-8 become U+FFFD.
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

// Stream decodes tokens one at a time. Only one goroutine may use it.
type Stream struct {
	t     *Tokenizer
	out   strings.Builder
	in    sink
	bytes []opener
}

// opener is a stage that makes characters of bytes. open reports whether one is incomplete.
type opener interface{ open() bool }

// Text returns the text of one token alone.
func (t *Tokenizer) Text(id uint32) string { return t.Decode([]uint32{id}, false) }

// Stream returns an incremental detokenizer for the tokens after context, the last tokens of
// the prompt. A few are enough; none means the start of a text. The text of the context
// itself is not returned.
//
// With a byte-level decoder and no context, the concatenated results of Next and Flush are
// what Decode returns for all tokens. With byte_fallback a character is returned as soon as
// it is complete, while Decode would replace it if the bytes after it are invalid.
func (t *Tokenizer) Stream(context []uint32) *Stream {
	s := &Stream{t: t}
	s.in = &streamEnd{out: &s.out}
	for i := range t.decoders {
		s.in = newChain(t.decoders[len(t.decoders)-1-i:len(t.decoders)-i], s.in, false)
		if o, ok := s.in.(opener); ok {
			s.bytes = append(s.bytes, o)
		}
	}
	for _, id := range context {
		s.Next(id)
	}
	return s
}

// streamEnd writes into the builder of a Stream.
type streamEnd struct{ out *strings.Builder }

func (e *streamEnd) feed(s string, _ bool) { e.out.WriteString(s) }
func (e *streamEnd) finish()               {}

// Next returns the text that the token adds: "" while the bytes of a character are
// incomplete. Special tokens give their text, ids outside the vocabulary nothing.
func (s *Stream) Next(id uint32) string {
	s.out.Reset()
	if token, ok := s.t.decoderForm(id); ok {
		s.in.feed(token, true)
	}
	return s.out.String()
}

// Open reports whether the text so far ends inside a character, of which Next returned nothing yet.
func (s *Stream) Open() bool {
	return slices.ContainsFunc(s.bytes, func(o opener) bool { return o.open() })
}

// Flush ends the stream and returns the held-back text, with U+FFFD for incomplete
// characters. The stream must not be used afterwards.
func (s *Stream) Flush() string {
	s.out.Reset()
	s.in.finish()
	return s.out.String()
}

// encoder is one run of a text through the pipeline. A stage returns false to stop early.
type encoder struct {
	t *Tokenizer
	// emit receives a token, which covers the bytes [start, end) of x, and its spelling in
	// the vocabulary, value.
	emit    func(id uint32, x text, start, end int, value string) bool
	symbols []symbol
	// data are the ranges in which withheld tokens are not recognised.
	data dataSpans
	// stages[n] is the n-th pre-tokenizer; the last stage is the model.
	stages []func(text) bool
	// room, where it is set, is asked whether to encode a piece of n bytes of which a token can stand for longest.
	room func(n, longest int) bool
	// late, where it is set, is called when a pattern took too long for a part of the text.
	late func() bool
}

func newEncoder(t *Tokenizer, data dataSpans, emit func(id uint32, x text, start, end int,
	value string) bool) *encoder {
	e := &encoder{t: t, emit: emit, data: data, stages: make([]func(text) bool, len(t.pre)+1)}
	e.stages[len(t.pre)] = e.timely(e.word)
	for n, p := range t.pre {
		e.stages[n] = e.timely(func(x text) bool { return p.apply(x, e.stages[n+1]) })
	}
	return e
}

// timely returns a stage that gets no text that only says that a pattern took too long.
func (e *encoder) timely(stage func(text) bool) func(text) bool {
	return func(x text) bool {
		if x.late {
			return e.late == nil || e.late()
		}
		return stage(x)
	}
}

// run encodes s, which is valid UTF-8.
func (e *encoder) run(s string) bool {
	whole := original(s)
	return e.t.rawFinder.split(whole, e.data, func(t *addedToken, start, end int) bool {
		if t != nil {
			return e.emit(t.id, whole, start, end, s[start:end])
		}
		if e.room != nil && !e.room(end-start, e.t.longestRaw) {
			return false
		}
		x := e.t.normalizer.normalize(whole.slice(start, end))
		if x.late && e.late != nil && !e.late() {
			return false
		}
		x.late = false
		return e.t.normalizedFinder.split(x, e.data, func(t *addedToken, start, end int) bool {
			if t != nil {
				return e.emit(t.id, x, start, end, x.s[start:end])
			}
			return e.stages[0](x.slice(start, end))
		})
	})
}
