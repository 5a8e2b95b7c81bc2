package replay

import (
	"fmt"
	"strings"
	"testing"
)

// TestNoSeed: what was drawn with a seed that is not known is not sent, for it cannot be compared; what draws nothing,
// or has a seed of its own, is.
func TestNoSeed(t *testing.T) {
	const whole = `"seed": 7, `
	receipt := made("1", "", "7", "o")
	for _, x := range []struct {
		seed, settings, body, want string // want is "" where it is sent
	}{
		{``, "", "{}", "the receipt has no seed"},
		{`"seed": null, `, "", "{}", "the receipt's seed, null, is no whole number from 0 to 2^64-1"},
		{`"seed": -1, `, "", "{}", "the receipt's seed, -1, is no whole number from 0 to 2^64-1"},
		{`"seed": 1.5, `, "", "{}", "the receipt's seed, 1.5, is no whole number from 0 to 2^64-1"},
		{`"seed": "seven", `, "", "{}", `the receipt's seed, "seven", is no whole number from 0 to 2^64-1`},
		{`"seed": "", `, "", "{}", `the receipt's seed, "", is no whole number from 0 to 2^64-1`},
		{`"seed": {"a": [1]}, `, "", "{}", `the receipt's seed, {"a": [1]}, is no whole number from 0 to 2^64-1`},
		{`"seed": true, `, "", "{}", "the receipt's seed, true, is no whole number from 0 to 2^64-1"},
		{`"seed": 1.5152195401968785e+19, `, "", "{}", "the receipt's seed, 1.5152195401968785e+19, is no whole number " +
			"of 64 bits: something that reads numbers as JavaScript does changed it"},
		{`"seed": 18446744073709552000, `, "", "{}", "the receipt's seed, 18446744073709552000, is no whole number " +
			"of 64 bits: something that reads numbers as JavaScript does changed it"},
		{`"seed": "7", `, "", "{}", ""},
		{`"seed": null, `, "", `{"seed": 7}`, ""},
		{`"seed": null, `, `"sample": false`, "{}", ""},
		{`"plugins": [{"name": "t", "use": "template"}, {"name": "c", "use": "tools"}], `, `"sample": false`, "{}", ""},
		{`"plugins": [{"name": "x", "use": "logits"}], `, `"sample": false`, "{}", "the receipt has no seed"},
	} {
		settings := `"sample": true`
		if x.settings != "" {
			settings = x.settings
		}
		kept := strings.Replace(strings.Replace(receipt, `"plugins": [], `, "", 1), whole, x.seed, 1)
		kept = strings.Replace(kept, `"sample": true`, settings, 1)
		c, asked := answering(t, 200, `{"choices": [{"text": "b"}], "receipts": [`+receipt+`]}`)
		e := Exchange{Label: "r", Method: "POST", Path: "/v1/completions", Status: 200, Body: []byte(x.body),
			Reply: []byte(`{"choices": [{"text": "b"}], "receipts": [` + kept + `]}`)}
		var said strings.Builder
		tally, err := RunAll(t.Context(), c, []Exchange{e}, Options{},
			func(r Report) error { _, err := said.WriteString(r.String()); return err })
		want := ""
		if x.want != "" {
			want = "r: not compared: " + x.want + ", and the request has none: what was drawn cannot be drawn again\n"
		}
		switch {
		case err != nil || tally.Unknown() != (want != "") || tally.Same() != (want == ""):
			t.Errorf("%s: %+v, %v\n%s", x.seed, tally, err, &said)
		case want != "" && (said.String() != want || *asked != ""):
			t.Errorf("%s: said\n%swant\n%ssent %q", x.seed, &said, want, *asked)
		}
	}
}

// TestSeveralSeeds: several prompts that drew with seeds of their own are not sent, for a request can have one.
func TestSeveralSeeds(t *testing.T) {
	c, asked := answering(t, 200, "")
	e := Exchange{Label: "r", Method: "POST", Path: "/v1/completions", Status: 200,
		Body: []byte(`{"prompt": ["a", "b"]}`), Reply: fmt.Appendf(nil, `{"choices": [{"text": "b"}], "receipts": [%s, %s]}`, made("1", "", "7", "o"),
			made("1", "", "8", "o"))}
	r, err := Run(t.Context(), c, e, Options{})
	if err != nil || *asked != "" || !r.Incomparable ||
		r.Error != "2 prompts drew with seeds of their own, of which a request can have one" {
		t.Errorf("%v, %+v, sent %q", err, r, *asked)
	}
}

// TestUnknown: a difference is a difference whatever else cannot be compared, and so is a server that does not answer.
func TestUnknown(t *testing.T) {
	for _, x := range []struct {
		tally Tally
		want  bool
		text  string
	}{
		{Tally{All: 2, Equal: 1, Incomparable: 1}, true, "1 of 1 are the same; 1 cannot be compared"},
		{Tally{All: 2, Incomparable: 1}, false, "0 of 1 are the same; 1 cannot be compared"},
		{Tally{All: 1, Refused: 1}, true, "0 of 0 are the same; 1 refused when kept, not sent again"},
		{Tally{All: 1, Equal: 1}, false, "1 of 1 are the same"},
	} {
		if x.tally.Unknown() != x.want || x.tally.String() != x.text {
			t.Errorf("%+v: %v, %s", x.tally, x.tally.Unknown(), x.tally)
		}
	}
}

// TestRounded: a seed that may have been rounded is one that a program writes which keeps 53 bits of a number, in the
// ways of JavaScript, of jq, and of what prints all digits.
func TestRounded(t *testing.T) {
	for text, want := range map[seed]bool{
		"0": false, "7": false, "9007199254740991": false, "9007199254740992": true, "9007199254740993": false,
		"9007199254740994": true, "15152195401968784498": false, "15152195401968785000": true,
		"15152195401968785408": true, "15152195401968785409": false,
		"13694013777898029772": false, "13694013777898030000": true, "13694013777898029000": true, // %.17g of jq 1.6
		"13694013777898029056": true, "18446744073709551615": false, "18446744073709549568": true, "x": false,
	} {
		if got := text.rounded(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
