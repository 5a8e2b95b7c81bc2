package generateapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/generate"
)

// refusal is an error with its status and the text that clients see.
type refusal struct {
	status int
	text   string
	cause  error // nil for none
}

// Error returns the text, with the cause for the log.
func (e *refusal) Error() string {
	if e.cause != nil {
		return e.text + ": " + e.cause.Error()
	}
	return e.text
}

// Unwrap returns the cause, or llm.ErrInvalid.
func (e *refusal) Unwrap() error {
	if e.cause != nil {
		return e.cause
	}
	return llm.ErrInvalid
}

// The texts of the original.
var (
	errJSON      = &refusal{status: http.StatusBadRequest, text: "Invalid JSON format"}
	errShape     = &refusal{status: http.StatusBadRequest, text: "Invalid Data Format"}
	errDuplicate = &refusal{status: http.StatusBadRequest, text: "Duplicate request_ids"}
)

const textDraining = "Server is shutting down."

// textStopping is our own: the original has one model for ever.
const textStopping = "The model is being stopped."

// refused is a request that broke a rule.
func refused(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

// conflict is a request that cannot go on from what there is.
func conflict(cause error, format string, args ...any) error {
	return &refusal{status: http.StatusConflict, text: fmt.Sprintf(format, args...), cause: cause}
}

// table says what clients see of other errors. The first row that matches counts.
var table = []struct {
	err    error
	status int
	text   string
	// detailed puts the error's own text behind it.
	detailed bool
}{
	{server.ErrTooLarge, http.StatusRequestEntityTooLarge, "The body is larger than server.payload_limit", false},
	{server.ErrBody, http.StatusBadRequest, "The body could not be read", false},
	{store.ErrUnavailable, http.StatusServiceUnavailable, "The store of texts to continue does not answer", false},
	{store.ErrLost, http.StatusServiceUnavailable, "The text cannot be continued: the store of texts to continue did not answer for a while", false},
	{store.ErrTooLarge, http.StatusInsufficientStorage, "The text cannot be continued: it is larger than generate_api.store.max_state", false},
	{server.ErrRoute, http.StatusNotFound, "", true},
	{server.ErrMethod, http.StatusMethodNotAllowed, "", true},
	{server.ErrModelKey, http.StatusForbidden, "", true},
	{llm.ErrOverloaded, http.StatusTooManyRequests, "Model is overloaded", false},
	{llm.ErrDraining, http.StatusServiceUnavailable, textDraining, false},
	{llm.ErrTooLong, http.StatusBadRequest, "", true},
	{llm.ErrInvalid, http.StatusBadRequest, "", true},
	{llm.ErrBackend, http.StatusInternalServerError, "Error: ", true},
	{llm.ErrPlugin, http.StatusInternalServerError, "Error: ", true},
	{llm.ErrClosed, http.StatusInternalServerError, "Error: ", true},
	{generate.ErrIncomplete, http.StatusInternalServerError, "Error: ", true},
	{context.Canceled, 499, "Client closed the request", false},
}

// public returns the status and the text of err.
func public(err error) (status int, text string) {
	var r *refusal
	var none *server.NoModel
	var idle *server.NotServing
	switch {
	case errors.As(err, &r):
		return r.status, r.text
	case errors.As(err, &none):
		return http.StatusNotFound, none.Error()
	case errors.As(err, &idle):
		return http.StatusServiceUnavailable, idle.Error()
	}
	for _, row := range table {
		if !errors.Is(err, row.err) {
			continue
		}
		if row.detailed {
			return row.status, row.text + err.Error()
		}
		var full *generate.Overloaded
		if errors.As(err, &full) {
			return row.status, row.text + full.Detail()
		}
		return row.status, row.text
	}
	return http.StatusInternalServerError, "Internal server error"
}

// refuseRoute is refuse for errors that are found before a handler is called.
func refuseRoute(w http.ResponseWriter, r *http.Request, err error) { _ = refuse(w, r, err) }

// refuse replies with err; no byte of the reply may have been written.
func refuse(w http.ResponseWriter, r *http.Request, err error) error {
	server.Note(r.Context(), err)
	status, text := public(err)
	var full *generate.Overloaded
	var idle *server.NotServing
	switch {
	case errors.As(err, &full):
		w.Header().Set("Retry-After", strconv.Itoa(int(full.RetryAfter/time.Second)))
	case errors.As(err, &idle):
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, (idle.RetryAfter+time.Second-1)/time.Second))))
	case status == http.StatusServiceUnavailable || errors.Is(err, store.ErrBusy):
		w.Header().Set("Retry-After", "1")
	}
	writeText(w, status, text)
	return nil
}

// plain is the media type of texts.
const plain = "text/plain; charset=utf-8"

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", plain)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a client that left is nobody's problem
}
