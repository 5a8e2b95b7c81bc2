package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOwnersOfResponses: a response belongs to the key that made it. Without keys all clients are one owner, whatever
// token they show: otherwise the bounds of an owner would bind nobody who makes up tokens.
func TestOwnersOfResponses(t *testing.T) {
	for _, keys := range [][]string{nil, {"one", "two"}} {
		c := chatConfig()
		c.Server.APIKeys = keys
		h := openServer(t, c)
		send := func(method, path, token, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		var made struct{ ID string }
		w := send(http.MethodPost, "/v1/responses", "one", `{"input":"a","max_output_tokens":1}`)
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.ID == "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		want := http.StatusOK
		if keys != nil {
			want = http.StatusNotFound
		}
		if w := send(http.MethodGet, "/v1/responses/"+made.ID, "two", ""); w.Code != want {
			t.Errorf("keys %q: another's response: %d, want %d", keys, w.Code, want)
		}
		if w := send(http.MethodGet, "/v1/responses/"+made.ID, "one", ""); w.Code != http.StatusOK {
			t.Errorf("keys %q: the own response: %d", keys, w.Code)
		}
	}
}
