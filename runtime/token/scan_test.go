package token

import (
	"slices"
	"testing"
)

// What the patterns make of the cases that decide between their branches.
func TestScanners(t *testing.T) {
	for _, c := range []struct {
		pattern, in string
		want        []string
	}{
		{patternGPT2, "I'll I'LL x'ſs", []string{"I", "'ll", " I", "'", "LL", " x", "'", "ſs"}},
		{patternLlama, "I'll I'LL x'ſs", []string{"I", "'ll", " I", "'LL", " x", "'ſ", "s"}},
		{patternLlama, "'lL're'Ve'l'r", []string{"'lL", "'re", "'Ve", "'l", "'r"}},
		{patternGPT2, "12345 6", []string{"12345", " 6"}},
		{patternLlama, "12345 6", []string{"123", "45", " ", "6"}},
		{patternQwen, "12345 6", []string{"1", "2", "3", "4", "5", " ", "6"}},
		{patternGPT2, "a   b\n\n  c  ", []string{"a", "  ", " b", "\n\n ", " c", "  "}},
		{patternLlama, "a   b\n\n  c  ", []string{"a", "  ", " b", "\n\n", " ", " c", "  "}},
		{patternLlama, " \r\n \n\t\tx", []string{" \r\n \n", "\t", "\tx"}},
		{patternLlama, "a!\r\n\r\nb", []string{"a", "!\r\n\r\n", "b"}},
		{patternGPT2, "a!\r\n\r\nb", []string{"a", "!", "\r\n\r", "\n", "b"}},
		{patternLlama, "(x) !?\u00a0y\u3000", []string{"(x", ")", " !?", "\u00a0y", "\u3000"}},
		{patternLlama, "e\u0301t\u00e9", []string{"e", "\u0301t\u00e9"}},
	} {
		p := &splitter{scan: scanners[c.pattern]}
		var got []string
		ms, _ := p.matches(c.in)
		for _, m := range ms {
			got = append(got, c.in[m.start:m.end])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}
