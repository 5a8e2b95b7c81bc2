package replay

import (
	"net/http"
	"strings"
	"testing"
)

// TestUnsendable: what was kept of a request and can be sent to no server cannot be compared. Its headers are not told.
func TestUnsendable(t *testing.T) {
	for want, change := range map[string]func(*Exchange){
		"the value of the header X-Id has a control character": func(e *Exchange) {
			e.Header = http.Header{"X-Id": {"a", "secret\r\nb"}}
		},
		`"X Id" is no name of a header`: func(e *Exchange) { e.Header = http.Header{"X Id": {"secret"}} },
		`"" is no name of a header`:     func(e *Exchange) { e.Header = http.Header{"": {"secret"}} },
		"the query of the path":         func(e *Exchange) { e.Path += "?a=%zz" },
	} {
		c, asked := answering(t, 200, "")
		e := Exchange{Label: "r", Method: "POST", Path: "/generate", Status: 200, Body: []byte(`{"inputs": "a"}`),
			Reply: []byte(`{"generated_text": "b"}`)}
		change(&e)
		var said strings.Builder
		tally, err := RunAll(t.Context(), c, []Exchange{e}, Options{}, func(r Report) error {
			said.WriteString(r.String())
			return nil
		})
		if err != nil || !tally.Unknown() || *asked != "" || !strings.Contains(said.String(), want) ||
			strings.Contains(said.String(), "secret") {
			t.Errorf("%s: %+v, %v, said\n%s", want, tally, err, &said)
		}
	}
}
