package token

import "unicode/utf8"

// byteRunes is the byte alphabet of GPT-2's vocabularies: printable Latin-1 characters stand
// for themselves, every other byte for a character from U+0100 on, in order.
var byteRunes = func() (t [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		switch {
		case '!' <= b && b <= '~', 0xa1 <= b && b <= 0xac, 0xae <= b && b <= 0xff:
			t[b] = b
		default:
			t[b] = next
			next++
		}
	}
	return t
}()

// runeBytes is the inverse of byteRunes, -1 for runes outside the alphabet.
var runeBytes = func() (t [324]int16) {
	for i := range t {
		t[i] = -1
	}
	for b, r := range byteRunes {
		t[r] = int16(b)
	}
	return t
}()

// fromByteAlphabet returns the bytes that s spells in the byte alphabet; false if s has a
// character outside it.
func fromByteAlphabet(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r >= rune(len(runeBytes)) || runeBytes[r] < 0 {
			return "", false
		}
		b = append(b, byte(runeBytes[r]))
	}
	return string(b), true
}

// toByteAlphabet writes each byte of x as its character of the byte alphabet.
func toByteAlphabet(x text) text {
	edits := make([]edit, 0, len(x.s))
	for i := range len(x.s) {
		shift := 0
		if !utf8.RuneStart(x.s[i]) {
			shift = 1
		}
		edits = append(edits, edit{byteRunes[x.s[i]], shift})
	}
	return x.transform(edits, 0)
}
