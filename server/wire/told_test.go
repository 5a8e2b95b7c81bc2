package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestTold: what is wrong with a text is said without types of Go.
func TestTold(t *testing.T) {
	type inner struct {
		Seed  uint64
		Rank  int `json:"the_rank"`
		Share *float64
		Names []string
		Is    bool
	}
	for text, want := range map[string]string{
		`[]`:                         "want an object, given an array",
		`3`:                          "want an object, given a number",
		`"x"`:                        "want an object, given a string",
		`true`:                       "want an object, given true or false",
		`{"in": [3]}`:                "in: want an object, given a number",
		`{"in": [{"seed": -1}]}`:     "in.seed: want a whole number from 0 to 2^64-1, given -1",
		`{"in": [{"the_rank": {}}]}`: "in.the_rank: want a whole number, given an object",
		`{"in": [{"share": "x"}]}`:   "in.share: want a number, given a string",
		`{"in": [{"names": false}]}`: "in.names: want an array, given true or false",
		`{"in": [{"names": [1]}]}`:   "in.names: want a string, given a number",
		`{"in": [{"is": 1}]}`:        "in.is: want true or false, given a number",
		`{"in": [`:                   "it is no JSON: it ends too early",
		``:                           "it is no JSON: it ends too early",
		`{'in'`:                      "it is no JSON: invalid character '\\'' looking for beginning of object key string at byte 2",
	} {
		var v struct{ In []inner }
		err := json.Unmarshal([]byte(text), &v)
		if got := Told(err); got == nil || got.Error() != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
	var raw json.RawMessage
	err := json.NewDecoder(strings.NewReader("{")).Decode(&raw)
	if got := Told(err); got.Error() != "it is no JSON: it ends too early" {
		t.Error(got)
	}
	d := json.NewDecoder(strings.NewReader(`{"b": 1}`))
	d.DisallowUnknownFields()
	if got := Told(d.Decode(&struct{ A int }{})); got == nil || got.Error() != `member "b" is unknown` {
		t.Error(got)
	}
	if err := errors.New("x"); Told(err) != err || Told(nil) != nil {
		t.Error("other errors change")
	}
	for text, want := range map[string]string{"": "nothing", " {}": "an object", "[1]": "an array", `"`: "a string",
		"null": "null", "false": "true or false", "-3": "a number"} {
		if got := Kind([]byte(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}
