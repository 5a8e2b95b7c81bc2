package std_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/logits"
)

// TestBannedWordsFuel: words that deny as many tokens as they may behind some text do so within what a step may use.
// Of more, the request is refused.
func TestBannedWordsFuel(t *testing.T) {
	vocab := pieced{"x", "y", "\n"}
	for i := range 50_000 {
		vocab = append(vocab, fmt.Sprintf("a%d", 100_000+i))
	}
	for i := range 102_000 {
		vocab = append(vocab, fmt.Sprintf("b%d", 100_000+i))
	}
	g, err := tryLoadWith(t, modules(t)["banned-words"], `{}`, vocab)
	if err != nil {
		t.Fatal(err)
	}
	begins := func(words ...string) (*guest.Session, error) {
		params := `{"words":["` + strings.Join(words, `","`) + `"]}`
		s, err := g.Begin(guest.Start{Kinds: g.Description().Kinds, Params: []byte(params), Seed: 1})
		if err == nil {
			t.Cleanup(s.Close)
		}
		return s, err
	}
	for _, c := range []struct {
		words   []string
		refused bool
	}{
		{[]string{"xa", "ya", `\nxa`}, false},
		{[]string{"xa", "yxb"}, true}, // behind yx all tokens
		{[]string{"xa", "xb"}, true},
	} {
		if _, err := begins(c.words...); (err != nil) != c.refused || err != nil &&
			!strings.Contains(err.Error(), " tokens complete one, configured ones too, want at most 50000") {
			t.Errorf("%q: %v", c.words, err)
		}
	}
	s, err := begins("xa", "ya")
	if err != nil {
		t.Fatal(err)
	}
	p := logits.NewProcessor(s)
	row := make([]float32, len(vocab))
	most := uint64(0)
	var output []uint32
	for i := range 12 {
		clear(row)
		before := g.Stats().Fuel
		if _, err := p.Process(nil, output, row); err != nil {
			t.Fatal(err)
		}
		most = max(most, g.Stats().Fuel-before)
		if i > 0 {
			if last, denied := vocab[output[i-1]], row[3] < 0; denied != (last != "\n") || row[len(row)-1] < 0 {
				t.Errorf("behind %q: a denied %t, b %t", last, denied, row[len(row)-1] < 0)
			}
		}
		output = append(output, uint32(i%3))
	}
	t.Logf("fuel: at most %d a step", most)
}
