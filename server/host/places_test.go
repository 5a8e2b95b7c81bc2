package host

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestPlacesOfOneClient: a request that takes as many places as it may, one after the other, with replies that fill
// net/http's buffers: each finds those of the one before, in the service and in the engine.
func TestPlacesOfOneClient(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "vote", Source: config.Builtin + "vote"})
	})
	ts := httptest.NewServer(p.Server)
	defer ts.Close()
	for i, path := range strings.Fields(strings.Repeat("/v1/completions /generate_stream ", 10)) {
		body := `{"prompt":"a","n":64,"max_tokens":4,"logprobs":5}`
		if path != "/v1/completions" {
			body = `{"inputs":"a","parameters":{"num_beams":64,"max_new_tokens":4}}`
		}
		r, err := ts.Client().Post(ts.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || bytes.Contains(text, []byte("overloaded")) {
			t.Fatalf("request %d, %s: %d %.300s %v", i, path, r.StatusCode, text, err)
		}
	}
	for body, want := range map[string]string{
		`{"prompt":"a","n":65,"max_tokens":4}`: "`n` must be >= 1 and <= 64. Given: 65",
		`{"prompt":["a","b"],"n":33,"max_tokens":4}`: "`prompt` must have at most 1 entries with as many " +
			"sequences each: together they may be 64, half of max_concurrent_requests. Given: 2",
		`{"prompt":["a","b"],"n":8,"plugins":[{"name":"vote"}]}`: "`prompt` must have at most 1 entries with program " +
			"`vote`, which takes 64 places for each: together they may take 64, half of max_concurrent_requests. Given: 2",
		`{"prompt":["a","b"],"best_of":2,"plugins":[{"name":"vote"}]}`: "`best_of` and program `vote` in `plugins` " +
			"exclude each other",
	} {
		if status, text := p.call(t, http.MethodPost, "/v1/completions",
			[]byte(body)); status != http.StatusUnprocessableEntity || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}
