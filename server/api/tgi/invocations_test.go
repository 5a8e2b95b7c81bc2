package tgi

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestInvocationsForms: with OpenAI's own routes, which reply to errors themselves, the first form that fits counts.
func TestInvocationsForms(t *testing.T) {
	s, _ := wholeServer(nil)
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"a"}]}`:              `"object":"chat.completion"`,
		`{"messages":[{"role":"user","content":"a"}],"prompt":"a"}`: `"object":"chat.completion"`,
		`{"messages":"a","prompt":"a"}`:                             `"object":"text_completion"`,
		`{"messages":"a"}`:                                          `expected a sequence`,
	} {
		r := httptest.NewRequest("POST", "/invocations", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-TGI-Dialect", "tgi-3")
		rec := httptest.NewRecorder()
		if s.ServeHTTP(rec, r); !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}
