package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Errors of this package, each a row of the table below.
var (
	// ErrMediaType: the body does not say that it is JSON.
	ErrMediaType = errors.New("unsupported media type")
	// ErrTooLarge: the body passed the payload limit.
	ErrTooLarge = errors.New("payload too large")
	// ErrBody: the body could not be read.
	ErrBody = errors.New("failed to read the request body")
	// ErrUnhealthy: the engine is stuck, or the server is shutting down.
	ErrUnhealthy = errors.New("unhealthy")
	// ErrLoading: the model is not there yet.
	ErrLoading = errors.New("loading")
	// ErrIncompleteStream is generate.ErrIncomplete after events were sent.
	ErrIncompleteStream = errors.New("incomplete generation stream")
	// ErrPanic: a handler panicked.
	ErrPanic = errors.New("internal server error")
)

// Errors of keys and of the admin routes, whose texts clients see as they are.
var (
	// ErrAdminOff: there is no key for the admin routes.
	ErrAdminOff = errors.New("routes of administrators are switched off: server.admin_keys is empty")
	// ErrOrigin: a page of another origin called an admin route.
	ErrOrigin = errors.New("routes of administrators are not for pages of other origins: server.cors_allow_origin does not name this one")
	// ErrScope: the key opens other routes.
	ErrScope = errors.New("this route needs a key with the scope")
	// ErrNotFound: no plugin has the name.
	ErrNotFound = errors.New("no such plugin")
	// ErrConfigured: the plugin belongs to the settings or the folder, where it
	// must be changed.
	ErrConfigured = errors.New("the plugin is not an uploaded one")
	// ErrRefused: a module, or the settings that declare it, did not pass the
	// checks.
	ErrRefused = errors.New("refused")
	// ErrModuleType: the body does not say that it is a module.
	ErrModuleType = errors.New("the body must be a module: expected `Content-Type: application/wasm`")
	// ErrModuleSize: the module passed plugins.upload_limit.
	ErrModuleSize = errors.New("the module is too large")
)

// ErrModel: there is no such model; see NoModel.
var ErrModel = errors.New("no such model")

// ErrModelKey: the key's list of models lacks the one that was asked for.
var ErrModelKey = errors.New("the key given is not for this model")

// NoModel is a request for a model that is none. It wraps ErrModel.
type NoModel struct {
	// ID is what the client asked for.
	ID string
}

// Error returns the text that OpenAI's API has.
func (e *NoModel) Error() string { return fmt.Sprintf("The model `%.64s` does not exist", e.ID) }

// Unwrap returns ErrModel.
func (e *NoModel) Unwrap() error { return ErrModel }

// NotServing is a request for a model that does not run now.
type NotServing struct {
	// ID is the model's.
	ID string
	// Loading says that it is about to run; otherwise somebody must start it.
	Loading bool
	// Reason says why it does not run, behind its name; empty for "is loading" and
	// "is stopped".
	Reason string
	// RetryAfter is when to ask again; clients see whole seconds, at least one.
	RetryAfter time.Duration
}

// Error says which it is.
func (e *NotServing) Error() string {
	reason := e.Reason
	switch {
	case reason != "":
	case e.Loading:
		reason = "is loading"
	default:
		reason = "is stopped"
	}
	return fmt.Sprintf("Model `%.64s` %s", e.ID, reason)
}

// Unwrap returns ErrLoading or errStopped.
func (e *NotServing) Unwrap() error {
	if e.Loading {
		return errLoadingModel
	}
	return errStopped
}

// The two rows of NotServing.
var errLoadingModel, errStopped = errors.New("model is loading"), errors.New("model is stopped")

// row says what clients and metrics see of an error.
type row struct {
	err    error
	status int
	// kind is the error_type.
	kind string
	// text is what error says; a detailed row puts the error's own after it.
	text     string
	detailed bool
	// label is tgi_request_failure's.
	label string
}

// loadingRetry is after how many seconds to ask again for a model that is being
// loaded: most take less than that.
const loadingRetry = "5"

// statusGone is logged when the client left before the reply; nobody reads it.
const statusGone = 499

// table is the only place where an error becomes a status and a text. The
// first row that matches counts.
var table = []row{
	{ErrMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", "Expected request with `Content-Type: application/json`", false, "validation"},
	{ErrTooLarge, http.StatusRequestEntityTooLarge, "payload_too_large", "Failed to buffer the request body: length limit exceeded", false, "validation"},
	{ErrBody, http.StatusBadRequest, "bad_request", "Failed to buffer the request body", false, "dropped"},
	{wire.ErrSyntax, http.StatusBadRequest, "bad_request", "Failed to parse the request body as JSON: ", true, "validation"},
	{wire.ErrShape, http.StatusUnprocessableEntity, "validation", "Failed to deserialize the JSON body into the target type: ", true, "validation"},
	{generate.ErrTemplate, http.StatusUnprocessableEntity, "template_error", "Template error: ", true, "template"},
	{llm.ErrInvalid, http.StatusUnprocessableEntity, "validation", "Input validation error: ", true, "validation"},
	{llm.ErrTooLong, http.StatusUnprocessableEntity, "validation", "Input validation error: ", true, "validation"},
	{llm.ErrOverloaded, http.StatusTooManyRequests, "overloaded", "Model is overloaded", false, "overloaded"},
	{llm.ErrDraining, http.StatusServiceUnavailable, "draining", "Server is shutting down", false, "dropped"},
	{generate.ErrIncomplete, http.StatusInternalServerError, "incomplete_generation", "Incomplete generation", false, "incomplete"},
	{ErrIncompleteStream, http.StatusInternalServerError, "incomplete_generation_stream", "Incomplete generation stream", false, "incomplete"},
	{llm.ErrBackend, http.StatusFailedDependency, "generation", "Request failed during generation: ", true, "generation"},
	{llm.ErrPlugin, http.StatusFailedDependency, "plugin", "Request failed during generation: ", true, "plugin"},
	{llm.ErrClosed, http.StatusFailedDependency, "generation", "Request failed during generation: ", true, "generation"},
	{ErrUnhealthy, http.StatusServiceUnavailable, "healthcheck", "unhealthy", false, "generation"},
	{ErrLoading, http.StatusServiceUnavailable, "loading", "Model is loading", false, "dropped"},
	{errLoadingModel, http.StatusServiceUnavailable, "loading", "", true, "dropped"},
	{errStopped, http.StatusServiceUnavailable, "model_stopped", "", true, "dropped"},
	{ErrModel, http.StatusNotFound, "model_not_found", "", true, "validation"},
	{ErrModelKey, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrAdminOff, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrScope, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrOrigin, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrCrowd, http.StatusServiceUnavailable, "overloaded", "Too many connections", false, "overloaded"},
	{ErrProtocol, http.StatusHTTPVersionNotSupported, "bad_request", "", true, "validation"},
	{ErrHeader, http.StatusRequestHeaderFieldsTooLarge, "bad_request", "", true, "validation"},
	{ErrRoute, http.StatusNotFound, "not_found", "", true, "validation"},
	{ErrMethod, http.StatusMethodNotAllowed, "method_not_allowed", "", true, "validation"},
	{ErrNotFound, http.StatusNotFound, "not_found", "", true, "validation"},
	{ErrConfigured, http.StatusConflict, "conflict", "", true, "validation"},
	{ErrRefused, http.StatusUnprocessableEntity, "plugin", "", true, "validation"},
	{ErrModuleType, http.StatusUnsupportedMediaType, "unsupported_media_type", "", true, "validation"},
	{ErrModuleSize, http.StatusRequestEntityTooLarge, "payload_too_large", "", true, "validation"},
	{context.Canceled, statusGone, "dropped", "Client closed the request", false, "dropped"},
	{context.DeadlineExceeded, statusGone, "dropped", "Client closed the request", false, "dropped"},
}

// unknown is the row of every other error; its text is for the log alone.
var unknown = row{ErrPanic, http.StatusInternalServerError, "internal", "Internal server error", false, "generation"}

func lookUp(err error) row {
	for _, r := range table {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return unknown
}

// AppendError appends err as clients see it: {"error":…,"error_type":…}.
func AppendError(b []byte, err error) []byte {
	r := lookUp(err)
	text := r.text
	var full *generate.Overloaded
	switch {
	case r.detailed:
		text += err.Error()
	case errors.As(err, &full):
		text += full.Detail()
	}
	b = wire.AppendString(append(b, `{"error":`...), text)
	b = wire.AppendString(append(b, `,"error_type":`...), r.kind)
	return append(b, '}')
}

// WriteError replies with err. It must come before any other byte of the reply.
func WriteError(w http.ResponseWriter, err error) {
	r := lookUp(err)
	var full *generate.Overloaded
	if errors.As(err, &full) {
		w.Header().Set("Retry-After", strconv.Itoa(int(full.RetryAfter/time.Second)))
	}
	if r.err == ErrLoading {
		w.Header().Set("Retry-After", loadingRetry)
	}
	var idle *NotServing
	if errors.As(err, &idle) {
		seconds := max(1, (idle.RetryAfter+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	} else if r.status == http.StatusServiceUnavailable { // another replica may be better off
		w.Header().Set("Connection", "close")
	}
	writeJSON(w, r.status, AppendError(nil, err))
}
