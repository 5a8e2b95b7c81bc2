package modelsapi

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestAnthropic: the shape of Anthropic's list, in the fields and words of its package's ModelInfo.
func TestAnthropic(t *testing.T) {
	rec := httptest.NewRecorder()
	list := []Model{{ID: "a", Name: "A", Created: time.Unix(0, 0), Context: 9}, {ID: "b", Created: time.Unix(0, 0)}}
	if err := writeAnthropic(rec, list); err != nil {
		t.Fatal(err)
	}
	const want = `{"data":[{"type":"model","id":"a","display_name":"A","created_at":"1970-01-01T00:00:00Z",` +
		`"lifecycle":"active","max_input_tokens":9},{"type":"model","id":"b","display_name":"b",` +
		`"created_at":"1970-01-01T00:00:00Z","lifecycle":"active"}],"has_more":false,"first_id":"a","last_id":"b"}`
	if got := strings.TrimSpace(rec.Body.String()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
