// Package openaierror owns the errors of OpenAI's routes: which object, type and code
// clients see of an error that this server knows by a kind.
package openaierror

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/generate"
	"tgi/server/quota"
	"tgi/server/wire"
)

// Refusal is an error that only OpenAI's routes have. Its Error is what clients see. It wraps llm.ErrInvalid, for the
// other APIs that take these bodies.
type Refusal struct {
	Status int
	// Text is the message, Kind the code and TGI's error_type, Param the field that is to blame.
	Text, Kind, Param string
}

// Error implements error.
func (e *Refusal) Error() string { return e.Text }

// Unwrap returns llm.ErrInvalid.
func (e *Refusal) Unwrap() error { return llm.ErrInvalid }

// wrongKey begins with OpenAI's words: LiteLLM takes a 401 of the type "invalid_request_error" for an authentication
// error by them alone.
const wrongKey = "Incorrect API key provided: it is not known to this server"

func noModel(name string) *Refusal {
	return &Refusal{http.StatusNotFound, fmt.Sprintf("The model `%.64s` does not exist", name), "model_not_found",
		"model"}
}

// Failure is an error as clients see it. Its Type is TGI's error_type.
type Failure struct {
	server.Failure
	// Param is the field that is to blame; empty for none. Code tells failures
	// apart that share a type; empty for the type.
	Param, Code string
	// kind, if not empty, is the type of OpenAI's object.
	kind string
}

// Names say how the requests of a route call fields of a Draft. The prompt is inputs there.
type Names map[string]string

// param returns the name of the field that a rule is about.
func (n Names) param(rule *generate.Invalid) string { return cmp.Or(n[rule.Field], rule.Field) }

// Explain says what clients of a route with these names see of err.
func Explain(err error, names Names) Failure {
	var own *Refusal
	var tool *generate.ToolError
	var none *server.NoModel
	switch {
	case errors.As(err, &own):
	case errors.As(err, &tool):
		own = &Refusal{http.StatusUnprocessableEntity, "Tool error: " + tool.Msg, "tool_error",
			cmp.Or(names[tool.Field], tool.Field, "tool_choice")}
	case errors.As(err, &none):
		own = noModel(none.ID)
	}
	if own != nil {
		return Failure{Failure: server.Failure{Status: own.Status, Text: own.Text, Type: own.Kind}, Param: own.Param}
	}
	out := Failure{Failure: server.Explain(err)}
	var shape *wire.Error
	var rule *generate.Invalid
	var template *generate.TemplateError
	var beyond *quota.Exceeded
	switch {
	case errors.As(err, &beyond): // the type is what there is too much of
		out.Code, out.kind = "rate_limit_exceeded", "requests"
		if beyond.Tokens() {
			out.kind = "tokens"
		}
	case errors.As(err, &shape):
		out.Param = shape.Path
	case out.Kind == server.KindUnauthorized:
		out.Code = "invalid_api_key"
		if errors.Is(err, server.ErrWrongKey) {
			out.Text = wrongKey
		}
	case errors.As(err, &template):
		out.Param = cmp.Or(template.Field, names["inputs"])
	case out.Kind == server.KindTemplate:
		out.Param = names["inputs"]
	case errors.As(err, &rule):
		out.Param = names.param(rule)
		if rule.TooLong {
			out.Code = "context_length_exceeded"
		}
	}
	return out
}

// Class is the type of OpenAI's error object.
func (f *Failure) Class() string {
	switch {
	case f.kind != "":
		return f.kind
	case f.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case f.Status >= http.StatusInternalServerError, f.Status == http.StatusFailedDependency:
		return "server_error"
	}
	return "invalid_request_error"
}

// AppendObject writes {"error":{…},"error_type":…}: OpenAI's object, and beside
// it the type by which clients of TGI know the error. An event also has the
// status, as TGI's events do.
func (f *Failure) AppendObject(b []byte, event bool) []byte {
	b = wire.AppendString(append(b, `{"error":{"message":`...), f.Text)
	b = wire.AppendString(append(b, `,"type":`...), f.Class())
	if b = append(b, `,"param":`...); f.Param == "" {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, f.Param)
	}
	b = wire.AppendString(append(b, `,"code":`...), cmp.Or(f.Code, f.Type))
	if event {
		b = strconv.AppendInt(append(b, `,"http_status_code":`...), int64(f.Status), 10)
	}
	b = wire.AppendString(append(b, `},"error_type":`...), f.Type)
	return append(b, '}')
}
