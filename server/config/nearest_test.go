package config

import "testing"

// TestSuggestBegun: the first words of a name, whatever joins them, suggest it where they begin no other.
func TestSuggestBegun(t *testing.T) {
	known := []string{"dry", "no-repeat-ngram", "max_input_tokens", "top-k-rows", "top-k-columns"}
	for name, want := range map[string]string{"no-repeat": "; did you mean no-repeat-ngram?",
		"max": "; did you mean max_input_tokens?", "dri": "; did you mean dry?", "top-k": "", "zzzzzz": ""} {
		if got := Suggest(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
