package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/wire"
)

// refusal is an error that only these routes have. Its Error is what clients see.
type refusal struct {
	status            int
	text, kind, param string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// Unwrap returns llm.ErrInvalid, for the other APIs that take these bodies.
func (e *refusal) Unwrap() error { return llm.ErrInvalid }

// Requests that are refused whatever their settings are.
var (
	noSuffix = &refusal{
		http.StatusUnprocessableEntity, "Suffix is not supported and can be achieved by preprocessing the prompt.",
		"suffix not supported", "suffix",
	}
)

// wrongKey begins with OpenAI's words: LiteLLM takes a 401 of the type "invalid_request_error" for an authentication
// error by them alone.
const wrongKey = "Incorrect API key provided: it is not known to this server"

func tooManyPrompts(most int) error {
	text := fmt.Sprintf("Number of prompts exceeds the maximum allowed batch size of %d", most)
	return &refusal{http.StatusUnprocessableEntity, text, "batch size exceeded", "prompt"}
}

func noModel(name string) error {
	return &refusal{http.StatusNotFound, fmt.Sprintf("The model `%.64s` does not exist", name), "model_not_found",
		"model"}
}

func unsupported(field string) error {
	return &generate.Invalid{Msg: "`" + field + "` is not supported", Field: field}
}

// names are those that OpenAI's requests have for fields of a Draft.
var names = map[string]string{"max_new_tokens": "max_tokens", "top_n_tokens": "top_logprobs"}

// failure is an error as clients see it. Its Type is TGI's error_type.
type failure struct {
	server.Failure
	// param is the field that is to blame; empty for none. code tells failures
	// apart that share a type; empty for the type.
	param, code string
}

// explain says what clients see of err.
func explain(err error, f *form) failure {
	var own *refusal
	var tool *generate.ToolError
	var none *server.NoModel
	switch {
	case errors.As(err, &own):
		return failure{Failure: server.Failure{Status: own.status, Text: own.text, Type: own.kind}, param: own.param}
	case errors.As(err, &tool):
		return explain(toolFault("%s", tool.Msg), f)
	case errors.As(err, &none):
		return explain(noModel(none.ID), f)
	}
	out := failure{Failure: server.Explain(err)}
	var shape *wire.Error
	var rule *generate.Invalid
	var template *generate.TemplateError
	switch {
	case errors.As(err, &shape):
		out.param = shape.Path
	case out.Kind == server.KindUnauthorized:
		out.code = "invalid_api_key"
		if errors.Is(err, server.ErrWrongKey) {
			out.Text = wrongKey
		}
	case errors.As(err, &template):
		out.param = cmp.Or(template.Field, "messages")
	case out.Kind == server.KindTemplate:
		out.param = "messages"
	case errors.As(err, &rule):
		out.param = f.paramOf(rule)
		if rule.TooLong {
			out.code = "context_length_exceeded"
		}
	}
	return out
}

// paramOf returns how requests of a form call the field that a rule is about.
func (f *form) paramOf(rule *generate.Invalid) string {
	if name, ok := names[rule.Field]; ok {
		return name
	}
	switch {
	case rule.Field == "inputs" && f.chat:
		return "messages"
	case rule.Field == "inputs":
		return "prompt"
	}
	return rule.Field
}

// class is the type of OpenAI's error object.
func (f *failure) class() string {
	switch {
	case f.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case f.Status >= http.StatusInternalServerError, f.Status == http.StatusFailedDependency:
		return "server_error"
	}
	return "invalid_request_error"
}

// appendObject writes {"error":{…},"error_type":…}: OpenAI's object, and beside
// it the type by which clients of TGI know the error. An event also has the
// status, as TGI's events do.
func (f *failure) appendObject(b []byte, event bool) []byte {
	b = wire.AppendString(append(b, `{"error":{"message":`...), f.Text)
	b = wire.AppendString(append(b, `,"type":`...), f.class())
	if b = append(b, `,"param":`...); f.param == "" {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, f.param)
	}
	code := f.code
	if code == "" {
		code = f.Type
	}
	b = wire.AppendString(append(b, `,"code":`...), code)
	if event {
		b = strconv.AppendInt(append(b, `,"http_status_code":`...), int64(f.Status), 10)
	}
	b = wire.AppendString(append(b, `},"error_type":`...), f.Type)
	return append(b, '}')
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, about *form, d *dialect.Dialect, err error) {
	server.Note(r.Context(), err)
	f := explain(err, about)
	f.SetHeader(w.Header())
	if d.ReplyErrorObject {
		server.WriteStatus(w, f.Status, f.appendObject(nil, false))
		return
	}
	server.WriteStatus(w, f.Status, f.Append(nil))
}

// appendEvent writes err as an event of a stream.
func (c *call) appendEvent(b []byte, err error) []byte {
	f := explain(err, c.form)
	if c.dialect.StreamErrorObject {
		return f.appendObject(b, true)
	}
	return f.Append(b)
}
