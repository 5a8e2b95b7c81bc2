package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDecodeNoting: members that are not known are named, those of the body and of its objects alone.
func TestDecodeNoting(t *testing.T) {
	var n uint64
	inner := []Field{{Name: "n", Read: Into(&n, (*Reader).Usize)}}
	list := []Field{
		{Name: "parameters", Read: func(r *Reader) error {
			probe := *r // a value may be read more than once
			if err := probe.Object("struct Parameters", inner); err != nil {
				return err
			}
			return r.Object("struct Parameters", inner)
		}},
		{Name: "list", Read: func(r *Reader) error {
			return r.Array(func(int) error { return r.Object("struct Item", inner) })
		}},
	}
	many := ""
	for i := range 30 {
		many += fmt.Sprintf(`,"m%d":{"deep":[1]}`, i)
	}
	for body, want := range map[string][]string{
		`{"parameters":{"n":1},"list":[]}`:                              nil,
		`{"max_newtokens":1,"parameters":{"m":{"k":1},"n":2},"b":null}`: {"max_newtokens", "parameters.m", "b"},
		`{"list":[{"x":1}],"x":1,"x":2}`:                                {"x"},
		`{"` + strings.Repeat("a", 65) + `":1}`:                         {strings.Repeat("a", 64) + "…"},
	} {
		got, err := DecodeNoting([]byte(body), "struct Thing", list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
	}
	if got, err := DecodeNoting([]byte(`{"a":1`+many+`}`), "struct Thing", list); err != nil || len(got) != maxNotes {
		t.Errorf("%q, %v", got, err)
	}
}
