package generateapi

import (
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

// ownErrors says what clients see of the store's errors. The first row that matches counts.
var ownErrors = []struct {
	err error
	outcome
	retry time.Duration
}{
	{store.ErrUnavailable, outcome{status: http.StatusServiceUnavailable,
		text: "The store of texts to continue does not answer"}, storeRetry},
	{store.ErrLost, outcome{status: http.StatusServiceUnavailable,
		text: "The text cannot be continued: the store of texts to continue did not answer for a while"}, storeRetry},
	{store.ErrTooLarge, outcome{status: http.StatusInsufficientStorage,
		text: "The text cannot be continued: it is larger than generate_api.store.max_state"}, 0},
}

// storeRetry is how long to wait before asking again for a text that is in use, or whose store does not answer.
const storeRetry = time.Second

// outcome is the status and the text of a kind of error.
type outcome struct {
	status int
	text   string
	// detailed puts the error's own text behind it.
	detailed bool
}

// outcomes says what clients see of the errors that all APIs share.
var outcomes = map[server.Kind]outcome{
	server.KindTooLarge: {status: http.StatusRequestEntityTooLarge,
		text: "The body is larger than server.payload_limit"},
	server.KindBrokenBody:     {status: http.StatusBadRequest, text: "The body could not be read"},
	server.KindUnknownRoute:   {status: http.StatusNotFound, detailed: true},
	server.KindWrongMethod:    {status: http.StatusMethodNotAllowed, detailed: true},
	server.KindModelForbidden: {status: http.StatusForbidden, detailed: true},
	server.KindOverloaded:     {status: http.StatusTooManyRequests, text: "Model is overloaded"},
	server.KindDraining:       {status: http.StatusServiceUnavailable, text: textDraining},
	server.KindTooLong:        {status: http.StatusBadRequest, detailed: true},
	server.KindInvalid:        {status: http.StatusBadRequest, detailed: true},
	server.KindBackend:        {status: http.StatusInternalServerError, text: "Error: ", detailed: true},
	server.KindPluginFailed:   {status: http.StatusInternalServerError, text: "Error: ", detailed: true},
	server.KindClosed:         {status: http.StatusInternalServerError, text: "Error: ", detailed: true},
	server.KindIncomplete:     {status: http.StatusInternalServerError, text: "Error: ", detailed: true},
	server.KindCanceled:       {status: 499, text: "Client closed the request"},
}

// explain says what clients see of err.
func explain(err error) server.Failure {
	f := server.Explain(err)
	var r *refusal
	var none *server.NoModel
	var idle *server.NotServing
	switch {
	case errors.As(err, &r):
		f = server.Failure{Status: r.status, Text: r.text}
		if errors.Is(err, store.ErrBusy) {
			f.RetryAfter = storeRetry
		}
		return f
	case errors.As(err, &none):
		f.Text = none.Error()
		return f
	case errors.As(err, &idle):
		f.Text = idle.Error()
		return f
	}
	for _, row := range ownErrors {
		if errors.Is(err, row.err) {
			return server.Failure{Status: row.status, Text: row.text, RetryAfter: row.retry}
		}
	}
	out, ok := outcomes[f.Kind]
	if !ok {
		return f
	}
	f.Status, f.Text = out.status, out.text
	var full *generate.Overloaded
	switch {
	case out.detailed:
		f.Text += err.Error()
	case errors.As(err, &full):
		f.Text += full.Detail()
	}
	return f
}

// refuseRoute is refuse for errors that are found before a handler is called.
func refuseRoute(w http.ResponseWriter, r *http.Request, err error) { _ = refuse(w, r, err) }

// refuse replies with err; no byte of the reply may have been written.
func refuse(w http.ResponseWriter, r *http.Request, err error) error {
	server.Note(r.Context(), err)
	f := explain(err)
	f.SetHeader(w.Header())
	writeText(w, f.Status, f.Text)
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
