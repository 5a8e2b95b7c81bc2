package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// seed is that of a receipt as the file has it: any JSON, empty for none.
type seed string

// UnmarshalJSON takes any value: what cannot be a seed is said by flaw.
func (s *seed) UnmarshalJSON(data []byte) error {
	*s = seed(data)
	return nil
}

// digits are those of a seed that is a text, or what else it is.
func (s seed) digits() string {
	var text string
	if strings.HasPrefix(string(s), `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return string(s)
}

// number returns the seed, if there is one of 64 bits.
func (s seed) number() (n uint64, ok bool) {
	n, err := strconv.ParseUint(s.digits(), 10, 64)
	return n, err == nil
}

// flaw says why the seed cannot be sent again, empty where it can.
func (s seed) flaw() string {
	f, err := strconv.ParseFloat(s.digits(), 64)
	switch _, ok := s.number(); {
	case ok:
		return ""
	case s == "":
		return "the receipt has no seed"
	case err == nil && f >= js:
		return fmt.Sprintf("the receipt's seed, %s, is no whole number of 64 bits: something that reads numbers as "+
			"JavaScript does changed it", s.shown())
	}
	return fmt.Sprintf("the receipt's seed, %s, is no whole number from 0 to 2^64-1", s.shown())
}

// js is the first number that JavaScript does not tell from its neighbour: 2^53 + 1 is the same there.
const js = 1 << 53

// rounded reports whether the seed may have been rounded to the 53 bits that JavaScript keeps of a number: whether it
// is what a program writes that read another one so. Between 2^53 and 2^54 that is every second number.
func (s seed) rounded() bool {
	n, ok := s.number()
	if !ok || n < js {
		return false
	}
	f := float64(n)
	if f < 1<<64 && uint64(f) == n { // all digits of the rounded number, as C and Go print it
		return true
	}
	for _, digits := range []int{-1, 16} { // as few as tell it from others, as JavaScript has it, or 17, as older jq
		text := strconv.FormatFloat(f, 'e', digits, 64)
		mantissa, exponent, _ := strings.Cut(text, "e+")
		mantissa = strings.ReplaceAll(mantissa, ".", "")
		if e, err := strconv.Atoi(exponent); err == nil && len(mantissa) <= e+1 &&
			mantissa+strings.Repeat("0", e+1-len(mantissa)) == s.digits() {
			return true
		}
	}
	return false
}

// shown is the seed as the file has it, a text in its quotes.
func (s seed) shown() string { return quoted([]byte(s)) }

// undrawn says why the texts of a reply with these receipts cannot be drawn again by a request without a seed of its
// own, empty where they can or where nothing was drawn. batch says that all seeds follow from the first.
func undrawn(list []receipt, batch bool) string {
	drew := slices.ContainsFunc(list, func(r receipt) bool { return r.drawn() })
	switch {
	case len(list) == 0 || !drew:
		return ""
	case len(list) > 1 && !batch:
		return fmt.Sprintf("%d prompts drew with seeds of their own, of which a request can have one", len(list))
	}
	if flaw := list[0].Seed.flaw(); flaw != "" {
		return flaw + ", and the request has none: what was drawn cannot be drawn again"
	}
	return ""
}

// doubts say why a reply that differs may have been drawn with another seed than the one that was sent: given, as the
// request has it, or that of the receipt.
func (r *receipt) doubts(given json.RawMessage) (list []string) {
	n, ok := r.Seed.number()
	if own, is := seed(given).number(); is && ok && own != n {
		list = append(list, fmt.Sprintf("the request has the seed %s, its receipt %s: one of them was changed",
			seed(given).shown(), r.Seed.shown()))
	}
	if flaw := r.Seed.flaw(); flaw != "" {
		list = append(list, flaw)
	}
	if r.Seed.rounded() {
		list = append(list, fmt.Sprintf("the receipt's seed, %s, may have been rounded by something that reads numbers as "+
			"JavaScript does", r.Seed.shown()))
	}
	return list
}
