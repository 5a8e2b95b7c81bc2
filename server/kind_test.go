package server

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/server/generate"
)

// TestExplain: what APIs learn of an error without writing it.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err    error
		want   Failure
		header string // Retry-After and Connection
	}{
		{errors.New("secret"), Failure{Kind: KindInternal, Status: 500, Type: "internal",
			Text: "Internal server error"}, "/"},
		{fmt.Errorf("%w: x", llm.ErrInvalid), Failure{Kind: KindInvalid, Status: 422, Type: "validation",
			Text: "Input validation error: " + llm.ErrInvalid.Error() + ": x"}, "/"},
		{
			&generate.Overloaded{RetryAfter: 1500 * time.Millisecond, Reason: "full"},
			Failure{Kind: KindOverloaded, Status: 429, Type: "overloaded", Text: "Model is overloaded: full",
				RetryAfter: time.Second}, "1/",
		},
		{ErrLoading, Failure{Kind: KindServerLoading, Status: 503, Type: "loading", Text: "Model is loading",
			RetryAfter: 5 * time.Second, Close: true}, "5/close"},
		{llm.ErrDraining, Failure{Kind: KindDraining, Status: 503, Type: "draining", Text: "Server is shutting down",
			RetryAfter: time.Second, Close: true}, "1/close"},
		{
			&NotServing{ID: "m", RetryAfter: 1500 * time.Millisecond},
			Failure{Kind: KindModelStopped, Status: 503, Type: "model_stopped", Text: "Model `m` is stopped",
				RetryAfter: 2 * time.Second}, "2/",
		},
		{&NotServing{ID: "m", RetryAfter: time.Second, Needed: 9, Free: 4}, Failure{Kind: KindModelMemory, Status: 507,
			Type: "insufficient_memory",
			Text: "Model `m` cannot be loaded: not enough memory: it needs 9 bytes, 4 are free"}, "/"},
		{fmt.Errorf("%w: x", ErrNoRoom), Failure{Kind: KindNoRoom, Status: 507, Type: "insufficient_disk",
			Text: "not enough disk: x"}, "/"},
		{&NotServing{ID: "m", Loading: true}, Failure{Kind: KindModelLoading, Status: 503, Type: "loading",
			Text: "Model `m` is loading", RetryAfter: time.Second}, "1/"},
	} {
		got := Explain(c.err)
		if got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.err, got, c.want)
		}
		h := http.Header{}
		got.SetHeader(h)
		if set := h.Get("Retry-After") + "/" + h.Get("Connection"); set != c.header {
			t.Errorf("%v: the header has %q, want %q", c.err, set, c.header)
		}
	}
}
