package host

import (
	"net/http"
	"regexp"
	"testing"
)

// TestGrammarFigures: what grammars cost is among the figures.
func TestGrammarFigures(t *testing.T) {
	p := openPlugged(t, nil)
	for range 2 {
		if status, text := p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"a","parameters":{"grammar":{"type":"regex","value":"[a-z]{3}"}}}`)); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
	for _, want := range []string{
		`(?m)^tgi_grammar_compiles_total\{model="tgi-demo"\} 1$`, `(?m)^tgi_grammar_hits_total\{model="tgi-demo"\} 1$`,
		`(?m)^tgi_grammar_kept\{model="tgi-demo"\} 1$`, `(?m)^tgi_grammar_masks_total\{model="tgi-demo"\} [1-9]`,
		`(?m)^tgi_grammar_compile_seconds_total\{model="tgi-demo"\} \S*[1-9]`,
		`(?m)^tgi_grammar_dead_ends_total\{model="tgi-demo"\} 0$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("nothing fits %s", want)
		}
	}
}
