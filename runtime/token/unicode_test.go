package token

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestEveryCodePoint holds the character tables to the reference: each code
// point alone and among others, in blocks of 1024.
func TestEveryCodePoint(t *testing.T) {
	var golden struct {
		Categories string
		Digests    map[string]string
	}
	if err := json.Unmarshal(readFile(t, "unicode.json"), &golden); err != nil {
		t.Fatal(err)
	}
	normalized := func(n normalizer) func([]rune) string {
		return func(chars []rune) string {
			var b strings.Builder
			for _, c := range chars {
				fmt.Fprintf(&b, "%[1]c\na%[1]c\n\u0315%[1]c\u0334\n\u1100%[1]c\u11a8\n%[1]c\u0301\u3099\n\u09c7%[1]c\n",
					c)
			}
			return n.normalize(text{s: b.String()}).s
		}
	}
	lengths := func(p *splitter, how behavior, s string) string {
		var out []string
		ms, _ := p.matches(s)
		for _, m := range how.cut(ms) {
			if m.start < m.end {
				out = append(out, strconv.Itoa(utf8.RuneCountInString(s[m.start:m.end])))
			}
		}
		return strings.Join(out, ",")
	}
	split := func(p *splitter, how behavior) func([]rune) string {
		return func(chars []rune) string {
			var b strings.Builder
			for _, c := range chars {
				fmt.Fprintf(&b, "'%[1]cx'l%[1]cx %[1]cx%[1]c1%[1]c\n%[1]c%[1]c!%[1]c %[1]c ", c)
			}
			return lengths(p, how, b.String())
		}
	}
	staged := func(name string) func([]rune) string {
		stages, err := loadPre([]byte(`{"type":"`+name+`"}`), "pre_tokenizer", 0)
		if err != nil {
			t.Fatal(err)
		}
		return func(chars []rune) string {
			var b strings.Builder
			for _, c := range chars {
				fmt.Fprintf(&b, "'%[1]cx'l%[1]cx %[1]cx%[1]c1%[1]c\n%[1]c%[1]c!%[1]c %[1]c ", c)
			}
			var out []string
			var pass func(x text, stage int) bool
			pass = func(x text, stage int) bool {
				if stage == len(stages) {
					out = append(out, strconv.Itoa(utf8.RuneCountInString(x.s)))
					return true
				}
				return stages[stage].apply(x, func(y text) bool { return pass(y, stage+1) })
			}
			pass(original(b.String()), 0)
			return strings.Join(out, ",")
		}
	}
	regex := func(pattern string) *splitter {
		p, err := newRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	categories := regex(golden.Categories)
	checks := map[string]func([]rune) string{
		"NFC": normalized(forms["NFC"]), "NFD": normalized(forms["NFD"]),
		"NFKC": normalized(forms["NFKC"]), "NFKD": normalized(forms["NFKD"]),
		"Lowercase":   normalized(lowercase{}),
		"gpt2":        split(regex(patternGPT2), isolated),
		"llama":       split(regex(patternLlama), isolated),
		"qwen":        split(regex(patternQwen), isolated),
		"digits":      split(digits, contiguous),
		"punctuation": split(punctuations, contiguous),
		"whitespace":  staged("Whitespace"), "whitespace split": staged("WhitespaceSplit"),
		"contractions": split(regex(contractionsGPT+"|'"+contractionsTiktoken), isolated),
		"categories":   func(chars []rune) string { return lengths(categories, isolated, string(chars)) },
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			want := golden.Digests[name]
			for lo, chars := range codePoints() {
				sum := sha256.Sum256([]byte(check(chars)))
				if got := hex.EncodeToString(sum[:4]); got != want[:8] {
					t.Errorf("code points from %#x on: digest %s, want %s", lo, got, want[:8])
				}
				want = want[8:]
			}
			if want != "" {
				t.Errorf("%d digests left over", len(want)/8)
			}
		})
	}
}

// codePoints yields the blocks of make_goldens.py.
func codePoints() func(yield func(lo rune, chars []rune) bool) {
	return func(yield func(rune, []rune) bool) {
		var starts []rune
		for lo := rune(0); lo < 0x33000; lo += 0x400 {
			starts = append(starts, lo)
		}
		for _, lo := range append(starts, 0xe0000, 0xf0000, 0x10fc00) {
			var chars []rune
			for c := lo; c < lo+0x400; c++ {
				if c < 0xd800 || c > 0xdfff {
					chars = append(chars, c)
				}
			}
			if chars != nil && !yield(lo, chars) {
				return
			}
		}
	}
}
