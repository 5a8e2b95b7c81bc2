package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

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
		http.StatusUnprocessableEntity, "Suffix is not supported and can be achieved by preprocessing the prompt.", "suffix not supported", "suffix",
	}
)

func tooManyPrompts(most int) error {
	text := fmt.Sprintf("Number of prompts exceeds the maximum allowed batch size of %d", most)
	return &refusal{http.StatusUnprocessableEntity, text, "batch size exceeded", "prompt"}
}

func noModel(name string) error {
	return &refusal{http.StatusNotFound, fmt.Sprintf("The model `%.64s` does not exist", name), "model_not_found", "model"}
}

func unsupported(field string) error {
	return &generate.Invalid{Msg: "`" + field + "` is not supported", Field: field}
}

// names are those that OpenAI's requests have for fields of a Draft.
var names = map[string]string{"max_new_tokens": "max_tokens", "top_n_tokens": "top_logprobs"}

// failure is an error as clients see it.
type failure struct {
	status int
	header http.Header
	// text and kind are TGI's error and error_type.
	text, kind string
	// param is the field that is to blame; empty for none. code tells failures
	// apart that share a kind; empty for the kind.
	param, code string
}

// explain looks err up in the server's table.
func explain(err error, f *form) failure {
	var own *refusal
	if errors.As(err, &own) {
		return failure{status: own.status, text: own.text, kind: own.kind, param: own.param}
	}
	var tool *generate.ToolError
	if errors.As(err, &tool) {
		return explain(toolFault("%s", tool.Msg), f)
	}
	out := failure{status: 0, header: http.Header{}}
	var shape *wire.Error
	var rule *generate.Invalid
	switch {
	case errors.As(err, &shape):
		out.param = shape.Path
	case errors.Is(err, generate.ErrTemplate):
		out.param = "messages"
	case errors.As(err, &rule):
		out.param = rule.Field
		if n, ok := names[out.param]; ok {
			out.param = n
		}
		if out.param == "inputs" {
			if out.param = "prompt"; f.chat {
				out.param = "messages"
			}
		}
		if rule.TooLong {
			out.code = "context_length_exceeded"
		}
	}
	row := &tableRow{header: out.header}
	server.WriteError(row, err)
	out.status = row.status
	_ = wire.Decode(row.body, func(r *wire.Reader) error {
		return r.Object("", []wire.Field{
			{Name: "error", Read: wire.Into(&out.text, (*wire.Reader).String)},
			{Name: "error_type", Read: wire.Into(&out.kind, (*wire.Reader).String)},
		})
	})
	return out
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

// class is the type of OpenAI's error object.
func (f *failure) class() string {
	switch {
	case f.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case f.status >= http.StatusInternalServerError, f.status == http.StatusFailedDependency:
		return "server_error"
	}
	return "invalid_request_error"
}

// appendObject writes {"error":{…},"error_type":…}: OpenAI's object, and beside
// it the type by which clients of TGI know the error. An event also has the
// status, as TGI's events do.
func (f *failure) appendObject(b []byte, event bool) []byte {
	b = wire.AppendString(append(b, `{"error":{"message":`...), f.text)
	b = wire.AppendString(append(b, `,"type":`...), f.class())
	if b = append(b, `,"param":`...); f.param == "" {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, f.param)
	}
	code := f.code
	if code == "" {
		code = f.kind
	}
	b = wire.AppendString(append(b, `,"code":`...), code)
	if event {
		b = strconv.AppendInt(append(b, `,"http_status_code":`...), int64(f.status), 10)
	}
	b = wire.AppendString(append(b, `},"error_type":`...), f.kind)
	return append(b, '}')
}

// appendText writes {"error":…,"error_type":…}, TGI's shape.
func (f *failure) appendText(b []byte) []byte {
	b = wire.AppendString(append(b, `{"error":`...), f.text)
	b = wire.AppendString(append(b, `,"error_type":`...), f.kind)
	return append(b, '}')
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, about *form, d *dialect.Dialect, err error) {
	server.Note(r.Context(), err)
	f := explain(err, about)
	for name, values := range f.header {
		if name = http.CanonicalHeaderKey(name); !strings.HasPrefix(name, "Content-") {
			w.Header()[name] = values
		}
	}
	if d.ReplyErrorObject {
		server.WriteStatus(w, f.status, f.appendObject(nil, false))
		return
	}
	server.WriteStatus(w, f.status, f.appendText(nil))
}

// appendEvent writes err as an event of a stream.
func (c *call) appendEvent(b []byte, err error) []byte {
	f := explain(err, c.form)
	if c.dialect.StreamErrorObject {
		return f.appendObject(b, true)
	}
	return f.appendText(b)
}
