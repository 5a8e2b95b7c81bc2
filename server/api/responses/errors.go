package responses

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"tgi/server"
	"tgi/server/api/openaierror"
	"tgi/server/api/responses/store"
	"tgi/server/generate"
	"tgi/server/wire"
)

// names are those that requests have for fields of a Draft.
var names = openaierror.Names{"inputs": "input", "messages": "input", "max_new_tokens": "max_output_tokens",
	"top_n_tokens": "top_logprobs"}

// failure is an error as clients see it.
type failure struct{ openaierror.Failure }

// refused is a request that this API cannot serve as things are.
func refused(status int, code, param, format string, args ...any) error {
	return &openaierror.Refusal{Status: status, Kind: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

// notFound is about a response that is not kept, or not for this key.
func notFound(id string) error {
	return refused(http.StatusNotFound, "not_found", "", "Response with id '%.100s' not found.", id)
}

// storeRetry is how long to wait before asking a store again that does not answer.
const storeRetry = time.Second

// serverError is OpenAI's code where the model fails to generate a response, as its documents have it for an object of
// a response that failed; it has none for a call that the model does not make.
const serverError = "server_error"

// explain says what clients see of err: bad requests are 400, as OpenAI has it; no client of TGI calls these routes.
// What the model did not do as the request demands is no bad request.
func explain(err error) failure {
	f := failure{openaierror.Explain(err, names)}
	var rule *generate.Invalid
	var shape *wire.Error
	var tool *generate.ToolError
	switch {
	case errors.Is(err, store.ErrUnavailable):
		f.Failure.Failure = server.Failure{Status: http.StatusServiceUnavailable, Type: "unavailable",
			Text: "The store of responses does not answer", RetryAfter: storeRetry}
	case errors.Is(err, store.ErrTooLarge):
		f.Failure.Failure = server.Failure{Status: http.StatusRequestEntityTooLarge, Type: "payload_too_large",
			Text: "The request is larger than what is kept of a response (responses.max_response)"}
	case errors.Is(err, generate.ErrCall):
		f.Code = serverError // but not the status 500, after which SDKs send the request again
	case errors.As(err, &tool) && tool.Plain != "":
		f.Text = tool.Plain
	case errors.As(err, &rule), errors.As(err, &shape):
		f.Text = server.Plainly(err, names).Text
	}
	switch f.Status {
	case http.StatusUnprocessableEntity:
		f.Status = http.StatusBadRequest
	case http.StatusFailedDependency:
		if !errors.Is(err, generate.ErrToolServer) { // which no retry helps
			f.Status = http.StatusInternalServerError
		}
	}
	return f
}

// appendCode writes the error of a response that failed: {"code":…,"message":…}.
func (f *failure) appendCode(b []byte) []byte {
	code := "invalid_prompt"
	switch {
	case f.Status == http.StatusTooManyRequests:
		code = "rate_limit_exceeded"
	case f.Class() == serverError, f.Code == serverError:
		code = serverError
	}
	b = wire.AppendString(append(b, `{"code":`...), code)
	return append(wire.AppendString(append(b, `,"message":`...), f.Text), '}')
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	f := explain(err)
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, f.AppendObject(nil, false))
}
