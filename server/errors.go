package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/quota"
	"tgi/server/wire"
)

// Errors of this package, each a row of the table below.
var (
	// ErrMediaType: the body does not say that it is JSON.
	ErrMediaType = errors.New("unsupported media type")
	// ErrEncoding: the body is compressed.
	ErrEncoding = errors.New("unsupported content encoding")
	// ErrCharset: the body says that it is JSON in another charset than UTF-8.
	ErrCharset = errors.New("unsupported charset")
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

// Errors of keys and of the admin routes. Clients see their texts unchanged.
var (
	// ErrAdminOff: there is no key for the admin routes.
	ErrAdminOff = errors.New("routes of administrators are switched off: server.admin_keys is empty")
	// ErrOrigin: a page of another origin called an admin route.
	ErrOrigin = errors.New("routes of administrators are not for pages of other origins: server.cors_allow_origin does not name this one")
	// ErrNoKey: the request shows no key.
	ErrNoKey = errors.New("no key given: send the header `Authorization: Bearer KEY`")
	// ErrWrongKey: the key is not configured.
	ErrWrongKey = errors.New("the key given is not known to this server")
	// ErrScope: the key opens other routes.
	ErrScope = errors.New("this route needs a key with the scope")
	// ErrNoPlugin: no plugin has the name.
	ErrNoPlugin = errors.New("no such plugin")
	// ErrNotUploaded: the plugin belongs to the settings or the folder, where it
	// must be changed.
	ErrNotUploaded = errors.New("the plugin is not an uploaded one")
	// ErrUnsigned: nobody whom the settings name has signed a module that must be signed.
	ErrUnsigned = errors.New("the module is not signed as the settings demand")
	// ErrUploadsBusy: the folder of uploads was locked for as long as it was waited for.
	ErrUploadsBusy = errors.New("another server with this folder of uploads has been changing it")
	// ErrRefused: a module, or the settings that declare it, did not pass the
	// checks.
	ErrRefused = errors.New("refused")
	// ErrNoRoom: the disk that a module is kept on is full or read-only, or no folder takes what was compiled of it.
	ErrNoRoom = errors.New("not enough disk")
	// ErrModuleType: the body does not say that it is a module.
	ErrModuleType = errors.New("the body must be a module: expected `Content-Type: application/wasm`")
	// ErrModuleSize: the module passed plugins.upload_limit.
	ErrModuleSize = errors.New("the module is too large")
)

// ErrModel: there is no such model; see NoModel.
var ErrModel = errors.New("no such model")

// ErrModelKey: the key's list of models lacks the one that was asked for.
var ErrModelKey = errors.New("the key given is not for this model")

// ErrPluginKey: the key's list of plugins lacks one that the request names.
var ErrPluginKey = errors.New("the key given is not for this plugin")

// NoModel is a request for a model that does not exist. It wraps ErrModel.
type NoModel struct {
	// ID is what the client asked for.
	ID string
}

// Error returns the text that OpenAI's API has.
func (e *NoModel) Error() string { return fmt.Sprintf("The model `%.64s` does not exist", e.ID) }

// Unwrap returns ErrModel.
func (e *NoModel) Unwrap() error { return ErrModel }

// Task is what a model does with a text.
type Task int

// The tasks: to continue it, to make a vector of it, to say how well it answers a query, to name what it is.
const (
	Generates Task = iota
	Embeds
	Reranks
	Classifies
)

// String completes the sentence "the model ...".
func (t Task) String() string {
	return [...]string{"generates text", "embeds texts", "ranks texts", "classifies texts"}[t]
}

// ErrTask: the model is for something else; see WrongTask.
var ErrTask = errors.New("the model is for another task")

// WrongTask is a request for a model that does something else. It wraps ErrTask.
type WrongTask struct {
	// ID is the model's, Own what it does.
	ID  string
	Own Task
	// Wanted is what the request wants, Others are the models that do it and that its key may use.
	Wanted Task
	Others []string
}

// mostOthers bounds the models that an error names.
const mostOthers = 5

// Error names models that can.
func (e *WrongTask) Error() string {
	text := fmt.Sprintf("Model `%.64s` %s: this needs one that %s. ", e.ID, e.Own, e.Wanted)
	if len(e.Others) == 0 {
		return text + "This server has none"
	}
	return text + "This server has: " + strings.Join(e.Others[:min(len(e.Others), mostOthers)], ", ")
}

// Unwrap returns ErrTask.
func (e *WrongTask) Unwrap() error { return ErrTask }

// NotServing is a request for a model that does not run now.
type NotServing struct {
	// ID is the model's.
	ID string
	// Loading says that it is about to run; otherwise it must be started.
	Loading bool
	// Reason says why it does not run, after its name; empty means "is loading" or
	// "is stopped".
	Reason string
	// RetryAfter is when to ask again; clients see whole seconds, at least one.
	// It is not told where the model does not fit: waiting does not help.
	RetryAfter time.Duration
	// Needed and Free are bytes; a positive Needed says that the model does not fit.
	Needed, Free int64
}

// Error says which it is.
func (e *NotServing) Error() string {
	reason := e.Reason
	switch {
	case reason != "":
	case e.Needed > 0:
		reason = fmt.Sprintf("cannot be loaded: not enough memory: it needs %d bytes, %d are free", e.Needed, e.Free)
	case e.Loading:
		reason = "is loading"
	default:
		reason = "is stopped"
	}
	return fmt.Sprintf("Model `%.64s` %s", e.ID, reason)
}

// Unwrap returns errNoMemory, errLoadingModel or errStopped.
func (e *NotServing) Unwrap() error {
	switch {
	case e.Needed > 0:
		return errNoMemory
	case e.Loading:
		return errLoadingModel
	}
	return errStopped
}

// The rows of NotServing.
var (
	errLoadingModel = errors.New("model is loading")
	errStopped      = errors.New("model is stopped")
	errNoMemory     = errors.New("not enough memory for the model")
)

// row says what clients and metrics see of an error.
type row struct {
	err    error
	kind   Kind
	status int
	// errorType is TGI's error_type.
	errorType string
	// text is the message; a detailed row appends the error's own text.
	text     string
	detailed bool
	// label is tgi_request_failure's.
	label string
}

// loadingRetry is how long to wait before asking again for a model that is being
// loaded: most take less than that.
const loadingRetry = 5 * time.Second

// drainingRetry is how long to wait before asking again where this server ends: a balancer has another at once, and
// one that is restarted takes about as long.
const drainingRetry = time.Second

// statusGone is logged when the client left before the reply. It is never read.
const statusGone = 499

// table says which status and text an error becomes; the first row that matches counts. Explain adds what only the
// error itself knows.
var table = []row{
	{ErrMediaType, KindMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type",
		"Expected request with `Content-Type: application/json`", false, "validation"},
	{ErrEncoding, KindMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", "", true, "validation"},
	{ErrCharset, KindMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", "", true, "validation"},
	{ErrTooLarge, KindTooLarge, http.StatusRequestEntityTooLarge, "payload_too_large",
		"Failed to buffer the request body: length limit exceeded", false, "validation"},
	{ErrBody, KindBrokenBody, http.StatusBadRequest, "bad_request", "Failed to buffer the request body", false,
		"dropped"},
	{wire.ErrSyntax, KindSyntax, http.StatusBadRequest, "bad_request", "Failed to parse the request body as JSON: ",
		true,
		"validation"},
	{wire.ErrShape, KindShape, http.StatusUnprocessableEntity, "validation",
		"Failed to deserialize the JSON body into the target type: ", true, "validation"},
	{generate.ErrTemplate, KindTemplate, http.StatusUnprocessableEntity, "template_error", "Template error: ", true,
		"template"},
	{ErrTask, KindWrongTask, http.StatusUnprocessableEntity, "validation", "", true, "validation"},
	{llm.ErrInvalid, KindInvalid, http.StatusUnprocessableEntity, "validation", "Input validation error: ", true,
		"validation"},
	{llm.ErrTooLong, KindTooLong, http.StatusUnprocessableEntity, "validation", "Input validation error: ", true,
		"validation"},
	{llm.ErrOverloaded, KindOverloaded, http.StatusTooManyRequests, "overloaded", "Model is overloaded", false,
		"overloaded"},
	{quota.ErrExceeded, KindRateLimited, http.StatusTooManyRequests, "rate_limited", "", true, "quota"},
	{llm.ErrDraining, KindDraining, http.StatusServiceUnavailable, "draining", "Server is shutting down", false,
		"dropped"},
	{generate.ErrIncomplete, KindIncomplete, http.StatusInternalServerError, "incomplete_generation",
		"Incomplete generation", false, "incomplete"},
	{ErrIncompleteStream, KindIncompleteStream, http.StatusInternalServerError, "incomplete_generation_stream",
		"Incomplete generation stream", false, "incomplete"},
	{llm.ErrLost, KindUnhealthy, http.StatusServiceUnavailable, "healthcheck",
		"the model's device has failed: the server must be restarted", false, "generation"},
	{llm.ErrBackend, KindBackend, http.StatusFailedDependency, "generation", "Request failed during generation: ", true,
		"generation"},
	{llm.ErrPlugin, KindPluginFailed, http.StatusFailedDependency, "plugin", "Request failed during generation: ", true,
		"plugin"},
	{generate.ErrToolServer, KindBackend, http.StatusFailedDependency, "tool_server", "", true, "tool_server"},
	{llm.ErrClosed, KindClosed, http.StatusFailedDependency, "generation", "Request failed during generation: ", true,
		"generation"},
	{ErrUnhealthy, KindUnhealthy, http.StatusServiceUnavailable, "healthcheck", "unhealthy", false, "generation"},
	{ErrLoading, KindServerLoading, http.StatusServiceUnavailable, "loading", "Model is loading", false, "dropped"},
	{errLoadingModel, KindModelLoading, http.StatusServiceUnavailable, "loading", "", true, "dropped"},
	{errStopped, KindModelStopped, http.StatusServiceUnavailable, "model_stopped", "", true, "dropped"},
	{errNoMemory, KindModelMemory, http.StatusInsufficientStorage, "insufficient_memory", "", true, "dropped"},
	{ErrModel, KindUnknownModel, http.StatusNotFound, "model_not_found", "", true, "validation"},
	{ErrModelKey, KindModelForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrPluginKey, KindModelForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrAdminOff, KindForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrNoKey, KindUnauthorized, http.StatusUnauthorized, "unauthorized", "", true, "validation"},
	{ErrWrongKey, KindUnauthorized, http.StatusUnauthorized, "unauthorized", "", true, "validation"},
	{ErrScope, KindForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrUnsigned, KindForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrOrigin, KindForbidden, http.StatusForbidden, "forbidden", "", true, "validation"},
	{ErrTooManyConnections, KindTooManyConnections, http.StatusServiceUnavailable, "overloaded",
		"Too many connections", false, "overloaded"},
	{ErrProtocol, KindProtocol, http.StatusHTTPVersionNotSupported, "bad_request", "", true, "validation"},
	{ErrHeader, KindHeaderTooLarge, http.StatusRequestHeaderFieldsTooLarge, "bad_request", "", true, "validation"},
	{ErrRoute, KindUnknownRoute, http.StatusNotFound, "not_found", "", true, "validation"},
	{ErrMethod, KindWrongMethod, http.StatusMethodNotAllowed, "method_not_allowed", "", true, "validation"},
	{ErrNoPlugin, KindUnknownPlugin, http.StatusNotFound, "not_found", "", true, "validation"},
	{ErrNotUploaded, KindPluginConfigured, http.StatusConflict, "conflict", "", true, "validation"},
	{ErrUploadsBusy, KindPluginConfigured, http.StatusConflict, "conflict", "", true, "dropped"},
	{ErrRefused, KindPluginRefused, http.StatusUnprocessableEntity, "plugin", "", true, "validation"},
	{ErrNoRoom, KindNoRoom, http.StatusInsufficientStorage, "insufficient_disk", "", true, "dropped"},
	{ErrModuleType, KindModuleType, http.StatusUnsupportedMediaType, "unsupported_media_type", "", true, "validation"},
	{ErrModuleSize, KindModuleSize, http.StatusRequestEntityTooLarge, "payload_too_large", "", true, "validation"},
	{context.Canceled, KindCanceled, statusGone, "dropped", "Client closed the request", false, "dropped"},
	{context.DeadlineExceeded, KindCanceled, statusGone, "dropped", "Client closed the request", false, "dropped"},
}

// unknown is the row of every other error, whose text only the log shows.
var unknown = row{ErrPanic, KindInternal, http.StatusInternalServerError, "internal", "Internal server error", false,
	"generation"}

func lookUp(err error) row {
	for _, r := range table {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return unknown
}

// Failure is an error as clients see it: TGI's status, type and text, which other APIs
// put into a shape of their own, or the Kind, by which they find their own.
type Failure struct {
	Kind   Kind
	Status int
	// Type is TGI's error_type, Text its error.
	Type, Text string
	// RetryAfter is when to ask again, in whole seconds; 0 says nothing about it.
	RetryAfter time.Duration
	// Close asks the client to reconnect: another replica may be able to serve it.
	Close bool
}

// Explain returns what clients see of err.
func Explain(err error) Failure {
	r := lookUp(err)
	f := Failure{Kind: r.kind, Status: r.status, Type: r.errorType, Text: r.text}
	var full *generate.Overloaded
	var idle *NotServing
	var beyond *quota.Exceeded
	overloaded, notServing := errors.As(err, &full), errors.As(err, &idle)
	switch {
	case r.detailed:
		f.Text += err.Error()
	case overloaded:
		f.Text += full.Detail()
	}
	switch {
	case r.kind == KindModelMemory:
	case notServing:
		f.RetryAfter = max(time.Second, (idle.RetryAfter + time.Second - 1).Truncate(time.Second))
	case r.kind == KindServerLoading:
		f.RetryAfter = loadingRetry
	case r.kind == KindDraining:
		f.RetryAfter = drainingRetry
	case errors.As(err, &beyond):
		f.RetryAfter = beyond.RetryAfter
	case overloaded:
		f.RetryAfter = full.RetryAfter.Truncate(time.Second)
	}
	f.Close = !notServing && r.status == http.StatusServiceUnavailable
	return f
}

// SetHeader sets what the header says of the failure.
func (f *Failure) SetHeader(h http.Header) {
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
	if f.Close {
		h.Set("Connection", "close")
	}
}

// Append writes TGI's shape: {"error":…,"error_type":…}.
func (f *Failure) Append(b []byte) []byte {
	b = wire.AppendString(append(b, `{"error":`...), f.Text)
	b = wire.AppendString(append(b, `,"error_type":`...), f.Type)
	return append(b, '}')
}

// AppendError appends err as TGI's clients see it.
func AppendError(b []byte, err error) []byte {
	f := Explain(err)
	return f.Append(b)
}

// WriteError replies with err as TGI does. It must come before any other byte of the reply.
func WriteError(w http.ResponseWriter, err error) {
	f := Explain(err)
	f.SetHeader(w.Header())
	writeJSON(w, f.Status, f.Append(nil))
}
