package ollama

import (
	"errors"
	"fmt"
	"net/http"

	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/api/openaierror"
	"tgi/server/generate"
	"tgi/server/wire"
)

// names are those that requests have for fields of a Draft.
var names = map[string]string{"inputs": "prompt", "max_new_tokens": "options.num_predict",
	"top_n_tokens": "top_logprobs", "stop": "options.stop",
	"temperature": "options.temperature", "top_p": "options.top_p", "top_k": "options.top_k",
	"min_p": "options.min_p", "typical_p": "options.typical_p", "repetition_penalty": "options.repeat_penalty",
	"frequency_penalty": "options.frequency_penalty", "presence_penalty": "options.presence_penalty",
	"seed": "options.seed", "response_format": "format"}

// errNoModel has Ollama's words.
var errNoModel = refused(http.StatusBadRequest, "model is required")

// refused is a request that this API cannot serve. Its text has Ollama's words where it has some.
func refused(status int, format string, args ...any) error {
	return &openaierror.Refusal{Status: status, Kind: "validation", Text: fmt.Sprintf(format, args...)}
}

func invalid(field, format string, args ...any) error {
	return &generate.Invalid{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// notFound has Ollama's words: clients that read them fetch the model.
func notFound(name string) error {
	return refused(http.StatusNotFound, "model '%.200s' not found", name)
}

// about gives an error about a model that is not there the name that the request has for it.
func about(name string, err error) error {
	if errors.Is(err, server.ErrModel) || errors.Is(err, modelsapi.ErrUnknown) {
		return notFound(name)
	}
	return err
}

// explain says what clients see of err.
func explain(err error) server.Failure {
	f := server.Plainly(err, names)
	var own *openaierror.Refusal
	var shortage *modelsapi.Insufficient
	switch {
	case errors.As(err, &own):
		f = server.Failure{Status: own.Status, Text: own.Text}
	case errors.Is(err, modelsapi.ErrUnknown):
		f.Status, f.Text = http.StatusNotFound, "model not found"
	case errors.Is(err, modelsapi.ErrBusy), errors.Is(err, modelsapi.ErrConflict):
		f.Status, f.Text = http.StatusConflict, err.Error()
	case errors.As(err, &shortage):
		f.Status, f.Text = http.StatusInsufficientStorage, shortage.Error()
	case f.Status == http.StatusUnprocessableEntity:
		f.Status = http.StatusBadRequest
	case f.Status == http.StatusFailedDependency:
		f.Status = http.StatusInternalServerError
	}
	return f
}

// appendError writes {"error":…}.
func appendError(b []byte, f *server.Failure) []byte {
	return append(wire.AppendString(append(b, `{"error":`...), f.Text), '}')
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	f := explain(err)
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, appendError(nil, &f))
}
