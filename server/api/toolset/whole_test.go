package toolset_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tgi/server/api/toolset"
)

// TestWholeArguments: whatever a cut leaves of arguments, what is made of it is an object with some of the first of
// their members as they were, in a row, and with all of those that a comma follows.
func TestWholeArguments(t *testing.T) {
	for _, all := range []string{
		`{"city": "Paris"}`, `{"a": 1, "b": [1, {"c": "]}"}], "d": {"e": "\"{,"}, "f": null, "g": -1.5e3}`,
		`{}`, ` {"a" : "x,y" , "b":true}`, `{"käse": "ä😀\u00e4\\"}`,
	} {
		want, last := map[string]json.RawMessage{}, 0
		if err := json.Unmarshal([]byte(all), &want); err != nil {
			t.Fatal(err)
		}
		for n := range len(all) + 1 {
			got := map[string]json.RawMessage{}
			text := toolset.Whole(all[:n])
			if err := json.Unmarshal([]byte(text), &got); err != nil || got == nil {
				t.Fatalf("%q: %q: %v", all[:n], text, err)
			}
			for name, value := range got {
				if string(want[name]) != string(value) {
					t.Errorf("%q: %s is %s, want %s", all[:n], name, value, want[name])
				}
			}
			if len(got) < last {
				t.Errorf("%q: %d members, one byte less had %d", all[:n], len(got), last)
			}
			last = len(got)
		}
		if last != len(want) {
			t.Errorf("%q: %d members of %d", all, last, len(want))
		}
	}
	for in, want := range map[string]string{
		"": "{}", "[1, 2": "{}", `"x"`: "{}", "[1]": "{}", `{"city": "Paris"`: `{"city": "Paris"}`,
		`{"a": 12`: "{}", `{"a": 12,`: `{"a": 12}`, `{"a" "b": "c"`: "{}", strings.Repeat("[", 1000): "{}",
	} {
		if got := toolset.Whole(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
