package main

import (
	"strings"
	"testing"

	"tgi/sdk/go/plugintest"
)

// TestJudge: of three answers the one is sent that the model finds right.
func TestJudge(t *testing.T) {
	h := plugintest.New(t, "Count", " one", " two", " three", "\nIs this right? Answer yes or no: ", "yes", "no",
		"</s>")
	n := 0
	m := h.Program(t, &plugintest.Model{
		Next: func(string) string { n++; return []string{" one", " two", " three"}[n%3] },
		Likely: func(text, next string) float64 {
			if strings.Contains(text, "two") == (next == "yes") {
				return -0.1
			}
			return -3
		},
	})
	if got, err := m.Run(judge{}, "Count", `{"n": 3}`); got != " two" || err != nil || len(m.Runs) != 3 {
		t.Errorf("%q after %d runs (%v), want two", got, len(m.Runs), err)
	}
	if len(m.Asked) != 3 {
		t.Errorf("it asked %q, want all three at once", m.Asked)
	}
	if err := (judge{}).Validate([]byte(`{"n": 0}`)); err == nil {
		t.Error("no answer at all is accepted")
	}
}
