package modelsapi

import (
	"errors"
	"fmt"
	"net/http"

	"tgi/server"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Errors of Models, whose texts clients see unchanged.
var (
	// ErrUnknown: no model has the id. Its text is always that of OpenAI.
	ErrUnknown = errors.New("no such model")
	// ErrBusy: something else is done to the model that must end first.
	ErrBusy = errors.New("the model is busy")
	// ErrConflict: the model's state forbids the action until it is changed.
	ErrConflict = errors.New("the model's state does not allow this")
)

// Insufficient says that a model does not fit. It is decided before any of it
// is read.
type Insufficient struct {
	// Of is "memory" or "disk".
	Of string
	// Need and Free are bytes.
	Need, Free int64
}

// Error implements error.
func (e *Insufficient) Error() string {
	return fmt.Sprintf("not enough %s: the model needs %d bytes, %d are free", e.Of, e.Need, e.Free)
}

// unknownModel is ErrUnknown for an id.
type unknownModel string

func (e unknownModel) Error() string {
	return fmt.Sprintf("The model `%.64s` does not exist", string(e))
}
func (e unknownModel) Unwrap() error { return ErrUnknown }

// failure is an error as clients see it. Its Type is the error's code.
type failure struct {
	server.Failure
	// param is the member of the body that is to blame; empty for none.
	param string
	// shortage has the numbers of a 507.
	shortage *Insufficient
}

// aboutModel is a failure that the model of the request is to blame for.
func aboutModel(status int, code string, err error) failure {
	return failure{Failure: server.Failure{Status: status, Type: code, Text: err.Error()}, param: "model"}
}

// explain says what clients see of err.
func explain(err error) failure {
	var shortage *Insufficient
	var adapter unknownAdapter
	switch {
	case errors.As(err, &adapter):
		f := aboutModel(http.StatusNotFound, "adapter_not_found", err)
		f.param = "lora_name"
		return f
	case errors.Is(err, ErrUnknown):
		return aboutModel(http.StatusNotFound, "model_not_found", err)
	case errors.Is(err, ErrBusy):
		return aboutModel(http.StatusConflict, "model_busy", err)
	case errors.Is(err, ErrConflict):
		return aboutModel(http.StatusConflict, "conflict", err)
	case errors.As(err, &shortage):
		f := aboutModel(http.StatusInsufficientStorage, "insufficient_"+shortage.Of, shortage)
		f.shortage = shortage
		return f
	}
	f := failure{Failure: server.Explain(err)}
	var shape *wire.Error
	var rule *generate.Invalid
	if errors.As(err, &shape) {
		f.param = shape.Path
	} else if errors.As(err, &rule) {
		f.param = rule.Field
	}
	return f
}

// errorReply is {"error":{…},"error_type":…,"message":…}.
type errorReply struct {
	Error   errorObject `json:"error"`
	Type    string      `json:"error_type"`
	Message string      `json:"message"`
}

// errorObject is OpenAI's, with the numbers of a 507.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Need    *int64  `json:"needed_bytes,omitempty"`
	Free    *int64  `json:"free_bytes,omitempty"`
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, err error) error {
	server.Note(r.Context(), err)
	f := explain(err)
	f.SetHeader(w.Header())
	o := errorObject{Message: f.Text, Type: "invalid_request_error", Code: f.Type}
	if f.Status >= http.StatusInternalServerError {
		o.Type = "server_error"
	}
	if f.Kind == server.KindUnauthorized {
		o.Code = "invalid_api_key" // as on the other routes below /v1
	}
	if f.param != "" {
		o.Param = &f.param
	}
	if f.shortage != nil {
		o.Need, o.Free = &f.shortage.Need, &f.shortage.Free
	}
	return server.WriteValue(w, f.Status, errorReply{o, f.Type, f.Text})
}

// about gives ErrUnknown the id that was asked for.
func about(id string, err error) error {
	if errors.Is(err, ErrUnknown) {
		return unknownModel(id)
	}
	return err
}
