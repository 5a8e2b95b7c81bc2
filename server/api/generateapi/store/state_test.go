package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

func samples() []State {
	n, k, most, on, f, inf := int64(4), int64(-1), int64(math.MaxInt64), true, 0.25, math.Inf(1)
	return []State{
		{},
		{Model: "demo", Items: []Item{{ID: "a", Tokens: []llm.Token{1, 2, 300, 70_000, math.MaxUint32}}}},
		{
			Model: strings.Repeat("é", 200), Settings: Settings{NumBeams: &n, TopK: &k, MaxNewTokens: &most,
				DoSample: &on, Temperature: &f, TopP: &inf, RepetitionPenalty: &f, LengthPenalty: &f},
			Items: []Item{{ID: "a", Done: true, Tokens: []llm.Token{}}, {ID: "", Tokens: []llm.Token{0}}},
		},
		{Settings: Settings{TopK: &k, TopP: &f}},
	}
}

func TestContinuationState(t *testing.T) {
	for _, s := range samples() {
		b := s.Append([]byte("x"))[1:]
		got, err := Read(b)
		if err != nil || !reflect.DeepEqual(*got, s) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, s)
		}
		// No byte can change, and none can be missing or more.
		for i := range b {
			for _, flip := range []byte{1, 0x80} {
				other := bytes.Clone(b)
				other[i] ^= flip
				if _, err := Read(other); !errors.Is(err, ErrState) {
					t.Fatalf("byte %d changed: %v", i, err)
				}
			}
			if _, err := Read(b[:i]); !errors.Is(err, ErrState) {
				t.Fatalf("%d of %d bytes: %v", i, len(b), err)
			}
		}
		if _, err := Read(append(b, 0)); !errors.Is(err, ErrState) {
			t.Error("a byte more:", err)
		}
	}
}

// sign makes the checksum of a spoilt state right.
func sign(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func TestContinuationStateSaysWhatIsWrong(t *testing.T) {
	head := func(s string) []byte { return append([]byte(magic), s...) }
	for want, b := range map[string][]byte{
		"0 bytes that do not begin as one":                   nil,
		"17 bytes that do not begin as one":                  []byte("tgi-generate\x01abcd"),
		"it is of version 2, this server reads version 1":    sign([]byte("tgi-continue\x02")),
		"its checksum is 64636261, its bytes give":           append(head(""), "abcd"...),
		"it has fewer bytes than it says":                    sign(head("\xff\xff\xff\xff\x0f")),
		"it has a number that does not end":                  sign(head("\x00\x00\x80")),
		"it has bytes behind the last item":                  sign(head("\x00\x00\x00\x00")),
		"it has a truth value that is neither 0 nor 1":       sign(head("\x00\x08\x02\x00")),
		"it has a token past 32 bits":                        sign(head("\x00\x00\x01\x00\x00\x01\x80\x80\x80\x80\x10")),
		"it has numbers that are not in their shortest form": sign(head("\x80\x00\x00\x00")),
	} {
		_, err := Read(b)
		if err == nil || !errors.Is(err, ErrState) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\n got %v\nwant %s", b, err, want)
		}
	}
}

// TestContinuationKeys: owners, ids and orders have keys of their own.
func TestContinuationKeys(t *testing.T) {
	seen := map[Key]string{}
	for name, k := range map[string]Key{
		"a": KeyOf("", []string{"a"}), "a of k": KeyOf("k", []string{"a"}), "a-b": KeyOf("", []string{"a-b"}),
		"a, b": KeyOf("", []string{"a", "b"}),
		"b, a": KeyOf("", []string{"b", "a"}), "ab": KeyOf("", []string{"ab"}), "b of a": KeyOf("a", []string{"b"}),
		"empty": KeyOf("", []string{""}), "none": KeyOf("", nil),
	} {
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
	if k := KeyOf("k", []string{"a", "b"}); k != KeyOf("k", []string{"a", "b"}) || len(k.String()) != 64 {
		t.Error("a key is not the same twice")
	}
}

func FuzzContinuationState(f *testing.F) {
	for _, s := range samples() {
		b := s.Append(nil)
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, b := range [][]byte{body, sign(bytes.Clone(body))} {
			s, err := Read(b)
			if err != nil {
				if !errors.Is(err, ErrState) {
					t.Fatalf("%v is no ErrState", err)
				}
				continue
			}
			if again := s.Append(nil); !bytes.Equal(again, b) {
				t.Fatalf("%x is written as %x", b, again)
			}
		}
	})
}
