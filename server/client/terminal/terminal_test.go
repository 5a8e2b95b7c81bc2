package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestEveryCharacter: no control, format character or separator of lines comes through; letters do.
func TestEveryCharacter(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		bad := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		line, text := Line(string(r)), Text(string(r))
		if strings.ContainsRune(line, r) == bad && bad || unicode.IsGraphic(r) && line != string(r) {
			t.Errorf("%U: %q", r, line)
		}
		if kept := r == '\n' || r == '\t'; kept && text != string(r) || !kept && text != line {
			t.Errorf("%U: as a text %q", r, text)
		}
		encoded, _ := json.Marshal("a" + string(r))
		var back string
		if made := JSON(string(encoded)); json.Unmarshal([]byte(made), &back) != nil || back != "a"+string(r) ||
			bad && strings.ContainsRune(made, r) {
			t.Errorf("%U: as JSON %q", r, made)
		}
	}
}

// TestCut: no character is cut in two, and what is no UTF-8 is cut all the same.
func TestCut(t *testing.T) {
	text := "aé€👋z"
	for n := range len(text) + 2 {
		got := Cut(text, n)
		if !utf8.ValidString(got) || !strings.HasPrefix(text, got) || len(got) > n || len(got)+3 < min(n, len(text)) {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	if got := Cut(strings.Repeat("\x80", 9), 5); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Grüße 👋": "Grüße 👋", "a\x1b[2J\n\u009b\u202eb": `a\x1b[2J\n\u009b\u202eb`, "\x9b2J": "\uFFFD2J",
		"\u2028\u2066\U000e0041": `\u2028\u2066\U000e0041`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
