// Package store keeps what the generate API needs to go on with a generation:
// token ids and settings, under a key that only their owner can name.
//
// It owns the form of a state in bytes, and two stores for them: Memory, which is
// bounded and forgets what was not used for the longest time, and Redis, so that
// any replica can continue. Whoever wants a state claims its key first; one claim
// at a time holds a key.
package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"tgi/runtime/llm"
)

// ErrState: the bytes are not a state that can be continued.
var ErrState = errors.New("the state kept cannot be used")

// Settings are a generation_config as a client gave it: nil means "not given".
type Settings struct {
	NumBeams, TopK, MaxNewTokens                        *int64
	DoSample                                            *bool
	Temperature, TopP, RepetitionPenalty, LengthPenalty *float64
}

// Item is one generation of a state.
type Item struct {
	// ID is the request's.
	ID string
	// Done says that it ended by itself: nothing is added any more.
	Done bool
	// Tokens are those of the prompt and of all that was generated.
	Tokens []llm.Token
}

// State is what is known of one request, or of the requests of a batch.
type State struct {
	// Model is the name of the one that generated.
	Model string
	// Settings are those of the latest request.
	Settings Settings
	// Items are in the order of the batch, which is part of the key.
	Items []Item
}

// magic begins every state; its last byte is the version of what follows.
const magic = "tgi-continue\x01"

var table = crc32.MakeTable(crc32.Castagnoli)

// Append appends s in bytes:
//
//	magic, version             13 bytes
//	model                      length, bytes
//	which settings are given   1 byte, bit i for the i-th of the order below
//	settings                   num_beams, top_k, max_new_tokens: varint
//	                           do_sample: 1 byte
//	                           temperature, top_p, repetition_penalty, length_penalty: IEEE 754, 8 bytes, little-endian
//	number of items            uvarint
//	item                       id: length, bytes; done: 1 byte; tokens: number, uvarints
//	CRC-32C of all of it       4 bytes, little-endian
//
// Lengths and numbers are uvarints as of encoding/binary, in their shortest form.
func (s *State) Append(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = appendText(b, s.Model)
	b = s.Settings.append(b)
	b = binary.AppendUvarint(b, uint64(len(s.Items)))
	for i := range s.Items {
		item := &s.Items[i]
		b = appendBool(appendText(b, item.ID), item.Done)
		b = binary.AppendUvarint(b, uint64(len(item.Tokens)))
		for _, t := range item.Tokens {
			b = binary.AppendUvarint(b, uint64(t))
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], table))
}

func (s *Settings) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	for i, v := range s.ints() {
		if *v != nil {
			b[at] |= 1 << i
			b = binary.AppendVarint(b, **v)
		}
	}
	if s.DoSample != nil {
		b[at] |= 1 << 3
		b = appendBool(b, *s.DoSample)
	}
	for i, v := range s.floats() {
		if *v != nil {
			b[at] |= 1 << (4 + i)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(**v))
		}
	}
	return b
}

func (s *Settings) ints() [3]**int64 { return [3]**int64{&s.NumBeams, &s.TopK, &s.MaxNewTokens} }

func (s *Settings) floats() [4]**float64 {
	return [4]**float64{&s.Temperature, &s.TopP, &s.RepetitionPenalty, &s.LengthPenalty}
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Read reads what Append wrote. The bytes may come from anywhere: what is
// returned takes memory in proportion to their number, and every other sequence
// of bytes is an ErrState. Whether the tokens are the model's, and the settings
// within their bounds, is the caller's to check.
func Read(b []byte) (*State, error) {
	if len(b) < len(magic)+4 || !bytes.HasPrefix(b, []byte(magic[:len(magic)-1])) {
		return nil, fmt.Errorf("%w: %d bytes that do not begin as one", ErrState, len(b))
	}
	if v := b[len(magic)-1]; v != magic[len(magic)-1] {
		return nil, fmt.Errorf("%w: it is of version %d, this server reads version %d", ErrState, v,
			magic[len(magic)-1])
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(body, table); got != sum {
		return nil, fmt.Errorf("%w: its checksum is %08x, its bytes give %08x", ErrState, sum, got)
	}
	r := &reader{rest: body[len(magic):]}
	s := &State{Model: r.text()}
	r.settings(&s.Settings)
	n := r.count(3) // an id, whether it is done, the number of tokens
	for range n {
		item := Item{ID: r.text(), Done: r.bool()}
		tokens := r.count(1)
		item.Tokens = make([]llm.Token, 0, tokens)
		for range tokens {
			item.Tokens = append(item.Tokens, r.token())
		}
		s.Items = append(s.Items, item)
	}
	if r.broken == "" && len(r.rest) > 0 {
		r.fail("bytes behind the last item")
	}
	// One state has one form in bytes.
	if r.broken == "" && !bytes.Equal(s.Append(nil), b) {
		r.fail("numbers that are not in their shortest form")
	}
	if r.broken != "" {
		return nil, fmt.Errorf("%w: it has %s", ErrState, r.broken)
	}
	return s, nil
}

// reader takes values from the front of rest. After the first failure it returns
// zeros.
type reader struct {
	rest   []byte
	broken string
}

func (r *reader) fail(what string) {
	if r.broken == "" {
		r.broken, r.rest = what, nil
	}
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail("fewer bytes than it says")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number that does not end")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads how many values follow, each of at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.fail("fewer bytes than it says")
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

func (r *reader) bool() bool {
	b := r.take(1)
	if len(b) == 1 && b[0] > 1 {
		r.fail("a truth value that is neither 0 nor 1")
	}
	return len(b) == 1 && b[0] == 1
}

func (r *reader) token() llm.Token {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail("a token past 32 bits")
	}
	return llm.Token(v)
}

func (r *reader) settings(s *Settings) {
	given := r.take(1)
	if len(given) == 0 {
		return
	}
	for i, v := range s.ints() {
		if given[0]&(1<<i) == 0 {
			continue
		}
		n, size := binary.Varint(r.rest)
		if size <= 0 {
			r.fail("a number that does not end")
			return
		}
		r.rest = r.rest[size:]
		*v = &n
	}
	if given[0]&(1<<3) != 0 {
		on := r.bool()
		s.DoSample = &on
	}
	for i, v := range s.floats() {
		if given[0]&(1<<(4+i)) == 0 {
			continue
		}
		if b := r.take(8); len(b) == 8 {
			f := math.Float64frombits(binary.LittleEndian.Uint64(b))
			*v = &f
		}
	}
}
