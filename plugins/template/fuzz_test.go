package template

import (
	"testing"
	"unicode/utf8"

	"tgi/plugins/internal/guest/guesttest"
)

// FuzzRead: whatever a guest leaves in its memory, a result is a text whose spans are those of the contract, or none.
func FuzzRead(f *testing.F) {
	result := func(words ...uint32) []byte { return []byte(guesttest.Bytes(words...) + "aéb<s>") }
	f.Add(result(0, 36, 7, 20, 2, 0, 1, 1, 3), uint32(0))
	f.Add(result(1, 36, 7, 0, 0, 0, 0, 0, 0), uint32(0))
	f.Add(result(0, 0xfffffff0, 0xff, 0xfffffff0, 0xffff, 0, 0, 0, 0), uint32(4))
	f.Fuzz(func(t *testing.T, memory []byte, at uint32) {
		r, refused, err := read(memory, at)
		if err != nil || refused != nil {
			if r.Text != "" || r.Data != nil || err != nil && refused != nil {
				t.Errorf("%+v, %q, %v", r, refused, err)
			}
			return
		}
		if !utf8.ValidString(r.Text) {
			t.Errorf("text %q", r.Text)
		}
		last := 0
		for _, s := range r.Data {
			if s.Start < last || s.End <= s.Start || s.End > len(r.Text) || !utf8.ValidString(r.Text[s.Start:s.End]) {
				t.Errorf("span %+v after %d in %q", s, last, r.Text)
			}
			last = s.End
		}
	})
}
