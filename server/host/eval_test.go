package host

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestPerplexity: the perplexity of a text through the engine is what Python's transformers computes, for windows that
// overlap or do not; and bounds are said.
func TestPerplexity(t *testing.T) {
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/perplexity.json") // of make_perplexity.py beside it
	if err != nil {
		t.Fatal(err)
	}
	var goldens []Perplexity
	if err := json.Unmarshal(data, &goldens); err != nil || len(goldens) < 4 {
		t.Fatalf("%d goldens: %v", len(goldens), err)
	}
	s := openServer(t, testConfig())
	for _, want := range goldens {
		told := 0
		got, err := s.Perplexity(t.Context(), string(text), want.Window, want.Stride, func(tokens, of int) {
			if tokens <= told || of != want.Tokens {
				t.Errorf("told of %d of %d tokens after %d", tokens, of, told)
			}
			told = tokens
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.Tokens != want.Tokens || got.Scored != want.Scored || got.Windows != want.Windows ||
			told != want.Tokens {
			t.Errorf("got %+v, told of %d, want %+v", got, told, want)
		}
		if d := math.Abs(got.Perplexity/want.Perplexity - 1); d > 1e-3 {
			t.Errorf("window %d, stride %d: perplexity %f, want %f", want.Window, want.Stride, got.Perplexity, want.Perplexity)
		} else {
			t.Logf("window %d, stride %d: %f differs by %.1e", want.Window, want.Stride, got.Perplexity, d)
		}
	}
	for _, c := range []struct {
		window, stride int
		text, want     string
	}{
		{1 << 20, 0, "a text", "window: 1048576 is not from 2 to"}, {1, 0, "a text", "window: 1 is not"},
		{100, 101, "a text", "stride: 101 is not from 1 to 100"}, {100, 1, "", "the text has"},
	} {
		if _, err := s.Perplexity(t.Context(), c.text, c.window, c.stride, func(int, int) {}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("window %d, stride %d: error %v, want %s", c.window, c.stride, err, c.want)
		}
	}
}

// TestPerplexityOfTexts: a model that does not generate has no perplexity, and the error says why.
func TestPerplexityOfTexts(t *testing.T) {
	for name, want := range map[string]string{"bert": "embeds texts", "bert-rank": "ranks texts"} {
		cfg := testConfig()
		cfg.Model.Path = "../../models/testdata/embeddings/" + name
		_, err := openServer(t, cfg).Perplexity(t.Context(), "a text", 0, 0, func(int, int) {})
		if want += ": perplexity needs one that generates text"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}
