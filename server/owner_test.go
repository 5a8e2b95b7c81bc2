package server_test

import (
	"net/http"
	"testing"

	"tgi/server"
)

// TestOwnerOf: each key of the settings is an owner of files and batches. Without keys all clients are one, whatever
// token they make up.
func TestOwnerOf(t *testing.T) {
	var owner string
	tell := routes{"/owner": func(w http.ResponseWriter, r *http.Request) error {
		owner = server.OwnerOf(r)
		return nil
	}}
	for _, keys := range [][]string{nil, {"one", "two"}} {
		s := newServer(tell, func(o *server.Options) { o.Config.APIKeys = keys })
		seen := map[string]bool{}
		for _, token := range []string{"one", "two", "one"} {
			if rec := ask(s, "POST", "/owner", "1", "Authorization", "Bearer "+token); rec.Code != 200 {
				t.Fatalf("%d", rec.Code)
			}
			seen[owner] = true
		}
		if len(seen) != max(1, len(keys)) {
			t.Errorf("%d keys, and %d owners", len(keys), len(seen))
		}
	}
}
