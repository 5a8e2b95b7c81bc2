package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tgi/server/record"
	"tgi/server/wire"
)

// resent are the fields of a recorded request's header that are sent again: what says how the body is to be read.
// Others are the connection's, or keys, which are not recorded.
var resent = []string{"Accept", "Content-Type", "X-Tgi-Dialect", "Anthropic-Version", "Anthropic-Beta"}

// recorded reads a line of what [record] of the settings keeps.
func recorded(value json.RawMessage) (e Exchange, ok bool, err error) {
	if !has(value, "record") {
		return e, false, nil
	}
	var r record.Record
	if err := json.Unmarshal(value, &r); err != nil {
		return e, true, wire.Told(err)
	}
	switch {
	case r.Version != record.Version:
		return e, true, fmt.Errorf("record: this tgi reads version %d, given %d", record.Version, r.Version)
	case r.Path == "":
		return e, true, errors.New("path is missing")
	}
	e = Exchange{Label: strings.TrimSpace(r.Method + " " + r.Path + " " + r.ID), Method: r.Method, Path: r.Path,
		Header: http.Header{}, Key: r.Key, Body: r.Body, Status: r.Status, Reply: r.Reply}
	if q := query(r.Query); q != "" {
		e.Path += "?" + q
	}
	for name, values := range r.Headers {
		if slices.Contains(resent, http.CanonicalHeaderKey(name)) {
			e.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	var text string
	if wire.Kind(r.Reply) == "a string" && json.Unmarshal(r.Reply, &text) == nil {
		e.Reply = []byte(text)
	}
	for _, one := range r.Events {
		e.Reply = append(e.Reply, one.Text...)
	}
	gone := []byte(`"` + record.Gone + `"`)
	switch {
	case r.Cut:
		e.Flaw = "its body was longer than record.max_body"
	case r.ReplyCut:
		e.Flaw = "its reply was longer than record.max_body"
	case len(r.Body) == 0:
		e.Flaw = "it has no body"
	case r.Redacted && bytes.Contains(r.Body, gone):
		e.Flaw = "values of its body were left out (record.redact)"
	case r.Redacted:
		e.Flaw = "values of its reply were left out (record.redact)"
	case r.Status >= http.StatusContinue && r.Status < http.StatusOK:
		e.Flaw = "it became a socket"
	}
	return e, true, nil
}

// query returns a recorded query without the values that were left out.
func query(text string) string {
	values, err := url.ParseQuery(text)
	if err != nil {
		return ""
	}
	for name, list := range values {
		if slices.Contains(list, record.Gone) {
			delete(values, name)
		}
	}
	return values.Encode()
}
