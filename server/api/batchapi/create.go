package batchapi

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/batches"
	"tgi/server/fields"
	"tgi/server/wire"
)

// Bounds of a batch's metadata, from OpenAI's reference.
const (
	maxPairs = 16
	maxName  = 64
	maxValue = 512
)

// maxWindow bounds completion_window.
const maxWindow = 14 * 24 * time.Hour

var window = regexp.MustCompile(`^([1-9][0-9]{0,4})(m|h|d)$`)

// create is POST /v1/batches.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	body, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	var s batches.Spec
	err = server.Decode(r.Context(), body, func(r *wire.Reader) error {
		return r.Object("struct BatchRequest", []wire.Field{
			{Name: "input_file_id", Required: true, Read: wire.Into(&s.InputFile, (*wire.Reader).String)},
			{Name: "endpoint", Required: true, Read: wire.Into(&s.Endpoint, (*wire.Reader).String)},
			{Name: "completion_window", Required: true, Read: wire.Into(&s.Window, (*wire.Reader).String)},
			{Name: "metadata", Read: metadata(&s.Metadata)},
			{Name: "output_expires_after", Read: expiresAfter(&s.Keep)},
		})
	})
	if err != nil {
		return err
	}
	if !slices.Contains(Endpoints(), s.Endpoint) {
		return invalid("endpoint", "`endpoint` must be one of %s. Given: %.64q", strings.Join(Endpoints(), ", "), s.Endpoint)
	}
	if s.Time, err = windowTime(s.Window); err != nil {
		return err
	}
	b, err := a.options.Store.Create(server.OwnerOf(r), s)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, b)
}

// windowTime reads a completion_window: OpenAI's 24h, or another number of minutes, hours or days.
func windowTime(text string) (time.Duration, error) {
	m := window.FindStringSubmatch(text)
	if m == nil {
		return 0, invalid("completion_window", "`completion_window` must be such as 24h, 30m or 7d. Given: %.32q", text)
	}
	n, _ := strconv.Atoi(m[1]) // it has few digits
	d := time.Duration(n) * map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
	if d > maxWindow {
		return 0, invalid("completion_window", "`completion_window` must be at most %dd. Given: %q",
			maxWindow/(24*time.Hour), text)
	}
	return d, nil
}

// metadata returns a Field.Read of up to 16 texts with names.
func metadata(dst *map[string]string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		*dst = map[string]string{}
		return r.Map("a map of texts", func(name string) error {
			value, err := r.String()
			switch {
			case err != nil:
				return err
			case len(*dst) == maxPairs:
				return r.Refuse(fmt.Sprintf("at most %d pairs are kept", maxPairs))
			case utf8.RuneCountInString(name) > maxName, utf8.RuneCountInString(value) > maxValue:
				return r.Refuse(fmt.Sprintf("names have at most %d characters, values %d", maxName, maxValue))
			}
			(*dst)[name] = value
			return nil
		})
	}
}

// Bounds of expires_after, from OpenAI's reference.
const (
	leastKeep = 3600
	mostKeep  = 2_592_000
)

// expiresAfter returns a Field.Read of {"anchor":"created_at","seconds":…}, or null.
func expiresAfter(dst *time.Duration) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		var seconds uint32
		err := r.Object("struct ExpiresAfter", []wire.Field{
			{Name: "anchor", Required: true, Read: fields.Given(new(string), "created_at")},
			{Name: "seconds", Required: true, Read: wire.Into(&seconds, (*wire.Reader).Uint32)},
		})
		if err == nil && (seconds < leastKeep || seconds > mostKeep) {
			return r.Refuse(fmt.Sprintf("`seconds` must be from %d to %d", leastKeep, mostKeep))
		}
		*dst = time.Duration(seconds) * time.Second
		return err
	}
}
