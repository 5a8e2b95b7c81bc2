package modelsapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tgi/server"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Errors of Models, whose texts clients see as they are.
var (
	// ErrUnknown: no model has the id. Its text is always that of OpenAI.
	ErrUnknown = errors.New("no such model")
	// ErrBusy: something else is done to the model that must end first.
	ErrBusy = errors.New("the model is busy")
	// ErrConflict: the model's state forbids the action until somebody changes it.
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

// Loading says that a model is being loaded and must be there first.
type Loading struct {
	// ID is the model's.
	ID string
	// RetryAfter is when to ask again; clients see whole seconds, at least one.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Loading) Error() string { return fmt.Sprintf("The model `%.64s` is being loaded", e.ID) }

// unknownModel is ErrUnknown for an id.
type unknownModel string

func (e unknownModel) Error() string {
	return fmt.Sprintf("The model `%.64s` does not exist", string(e))
}
func (e unknownModel) Unwrap() error { return ErrUnknown }

// failure is an error as clients see it.
type failure struct {
	status     int
	text, code string
	// param is the member of the body that is to blame; empty for none.
	param string
	// lacking has the numbers of a 507.
	lacking *Insufficient
	// header are those that the server's table gives.
	header http.Header
}

// explain says what clients see of err.
func explain(err error) failure {
	var lacking *Insufficient
	var loading *Loading
	switch {
	case errors.Is(err, ErrUnknown):
		return failure{status: http.StatusNotFound, text: err.Error(), code: "model_not_found", param: "model"}
	case errors.Is(err, ErrBusy):
		return failure{status: http.StatusConflict, text: err.Error(), code: "model_busy", param: "model"}
	case errors.Is(err, ErrConflict):
		return failure{status: http.StatusConflict, text: err.Error(), code: "conflict", param: "model"}
	case errors.As(err, &lacking):
		return failure{status: http.StatusInsufficientStorage, text: lacking.Error(), code: "insufficient_" + lacking.Of, param: "model", lacking: lacking}
	case errors.As(err, &loading):
		seconds := max(1, (loading.RetryAfter+time.Second-1)/time.Second)
		return failure{
			status: http.StatusServiceUnavailable, text: loading.Error(), code: "model_loading", param: "model",
			header: http.Header{"Retry-After": {strconv.Itoa(int(seconds))}},
		}
	}
	return inTable(err)
}

// inTable looks err up in the server's table.
func inTable(err error) failure {
	row := &tableRow{header: http.Header{}}
	server.WriteError(row, err)
	f := failure{status: row.status, header: http.Header{}}
	for name, values := range row.header {
		if !strings.HasPrefix(name, "Content-") {
			f.header[name] = values
		}
	}
	_ = wire.Decode(row.body, func(r *wire.Reader) error {
		return r.Object("", []wire.Field{
			{Name: "error", Read: wire.Into(&f.text, (*wire.Reader).String)},
			{Name: "error_type", Read: wire.Into(&f.code, (*wire.Reader).String)},
		})
	})
	var shape *wire.Error
	var rule *generate.Invalid
	if errors.As(err, &shape) {
		f.param = shape.Path
	} else if errors.As(err, &rule) {
		f.param = rule.Field
	}
	return f
}

// tableRow receives what the server's table says of an error.
type tableRow struct {
	header http.Header
	status int
	body   []byte
}

func (t *tableRow) Header() http.Header { return t.header }
func (t *tableRow) WriteHeader(n int)   { t.status = n }
func (t *tableRow) Write(b []byte) (int, error) {
	t.body = append(t.body, b...)
	return len(b), nil
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
	for name, values := range f.header {
		w.Header()[name] = values
	}
	o := errorObject{Message: f.text, Type: "invalid_request_error", Code: f.code}
	if f.status >= http.StatusInternalServerError {
		o.Type = "server_error"
	}
	if f.param != "" {
		o.Param = &f.param
	}
	if f.lacking != nil {
		o.Need, o.Free = &f.lacking.Need, &f.lacking.Free
	}
	return reply(w, f.status, errorReply{o, f.code, f.text})
}

// about gives ErrUnknown the id that was asked for.
func about(id string, err error) error {
	if errors.Is(err, ErrUnknown) {
		return unknownModel(id)
	}
	return err
}
