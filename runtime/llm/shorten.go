package llm

import "unicode/utf8"

// MaxShown is how many bytes of a value of a client an error repeats.
const MaxShown = 64

// Shorten returns s as errors repeat it: of one longer than MaxShown the beginning, in whole characters, and an
// ellipsis.
func Shorten(s string) string {
	if len(s) <= MaxShown {
		return s
	}
	cut := MaxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
