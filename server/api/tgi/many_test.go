package tgi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/generate/generatetest"
)

// TestTooManyTexts: a call for many texts is refused before the first of them runs.
func TestTooManyTexts(t *testing.T) {
	most := callsPerSlot * sized.MaxConcurrentRequests
	list := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	instance, input, output := `{"inputs":"x","parameters":{"max_new_tokens":1}}`,
		`{"name":"a","shape":[1],"datatype":"BYTES","data":[120]}`, `{"name":"a"}`
	for path, body := range map[string]func(n int) string{
		"/vertex": func(n int) string { return `{"instances":[` + list(instance, n) + `]}` },
		"/v2/models/m/versions/1/infer": func(n int) string {
			return `{"id":"x","parameters":{"max_new_tokens":1},"inputs":[` + list(input, n) + `],"outputs":[` +
				list(output, n) + `]}`
		},
	} {
		for n, status := range map[int]int{most: 200, most + 1: 422, 1000: 422} {
			e := &generatetest.Engine{}
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body(n)))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			newServer(e).ServeHTTP(rec, r)
			if rec.Code != status || status == 422 &&
				!strings.Contains(rec.Body.String(),
					fmt.Sprintf("at most %d entries, 8 times max_concurrent_requests. Given: %d", most, n)) {
				t.Errorf("%s with %d: %d %.200s", path, n, rec.Code, rec.Body)
			}
			if ran := len(e.Requests()); (status == 200) != (ran == n) || status == 422 && ran > 0 {
				t.Errorf("%s with %d: %d ran", path, n, ran)
			}
		}
	}
}
