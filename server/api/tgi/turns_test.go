package tgi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/generate"
)

// queue counts turns.
type queue struct{ n int }

func (q *queue) Begin(string) generate.Turn { q.n++; return q }
func (*queue) Take(context.Context) bool    { return true }
func (*queue) Yield(context.Context) bool   { return true }
func (*queue) End()                         {}

// TestLongBodiesTakeTurns: whatever route reads a long body reads it in its client's turn.
func TestLongBodiesTakeTurns(t *testing.T) {
	s, a := wholeServer(nil)
	q := &queue{}
	s.ShareProcessors(q)
	// These do not look at the body.
	blind := []string{"/v1/responses/compact", "/cancel", "/api/alive", "/api/ready"}
	body := `{"unknown":"` + strings.Repeat("x", 16<<10) + `"}`
	n := 0
	for _, api := range append([]server.API{a}, a.options.Beside...) {
		for _, route := range api.Routes() {
			if route.Method != http.MethodPost || route.Scope != server.Generate || containsEnd(blind, route.Path) {
				continue
			}
			r := httptest.NewRequest(http.MethodPost, route.Path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			q.n = 0
			if s.ServeHTTP(rec, r); q.n == 0 {
				t.Errorf("%s reads a body of %d bytes out of turn: %d %.300s", route.Path, len(body), rec.Code, rec.Body)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("%d routes read bodies", n)
	}
}

func containsEnd(ends []string, path string) bool {
	for _, end := range ends {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}
