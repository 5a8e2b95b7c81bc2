package modelsapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server"
)

// TestWrongKey: a key that is missing or wrong has the code that OpenAI's routes give it.
func TestWrongKey(t *testing.T) {
	for _, cause := range []error{server.ErrNoKey, server.ErrWrongKey} {
		rec := httptest.NewRecorder()
		if err := refuse(rec, httptest.NewRequest("GET", "/v1/models", nil), cause); err != nil {
			t.Fatal(err)
		}
		if got := rec.Body.String(); rec.Code != 401 || !strings.Contains(got, `"code":"invalid_api_key"`) {
			t.Errorf("%v: %d %s", cause, rec.Code, got)
		}
	}
}
