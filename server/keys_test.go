package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestToken: a key is shown as a bearer token, or in x-api-key where there is no Authorization.
func TestToken(t *testing.T) {
	for want, headers := range map[string][2]string{
		"a": {"Bearer a", ""}, "b": {"", "b"}, "c": {"bearer c", "d"}, "": {"Basic e", "f"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for i, name := range []string{"Authorization", "X-Api-Key"} {
			if headers[i] != "" {
				r.Header.Set(name, headers[i])
			}
		}
		if got := Token(r); got != want {
			t.Errorf("%q: got %q, want %q", headers, got, want)
		}
	}
}
