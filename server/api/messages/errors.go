package messages

import (
	"errors"
	"net/http"

	"tgi/server"
	"tgi/server/generate"
	"tgi/server/wire"
)

// statusOverloaded is Anthropic's status of a server that cannot serve now.
const statusOverloaded = 529

// names are those that Anthropic's requests have for fields of a Draft.
var names = map[string]string{"inputs": "messages", "max_new_tokens": "max_tokens", "stop": "stop_sequences"}

// failure is an error as Anthropic's clients see it.
type failure struct {
	server.Failure
	// class is the type of the error.
	class string
}

// explain says what clients see of err: the status and the type that Anthropic's API has for it.
func explain(err error) failure {
	f := failure{Failure: server.Plainly(err, names)}
	switch {
	case f.Kind == server.KindCanceled:
		f.class = "api_error"
	case f.Kind == server.KindUnauthorized:
		f.class = "authentication_error"
	case f.Kind == server.KindForbidden, f.Kind == server.KindModelForbidden:
		f.class = "permission_error"
	case f.Kind == server.KindUnknownModel, f.Kind == server.KindUnknownRoute:
		f.class = "not_found_error"
	case f.Kind == server.KindTooLarge:
		f.class = "request_too_large"
	case f.Kind == server.KindOverloaded, f.Kind == server.KindRateLimited:
		f.class = "rate_limit_error"
	case f.Status == http.StatusServiceUnavailable:
		f.class, f.Status = "overloaded_error", statusOverloaded
	case errors.Is(err, generate.ErrToolServer): // which no retry helps
		f.class, f.Status = "invalid_request_error", http.StatusBadRequest
	case f.Status >= http.StatusInternalServerError, f.Status == http.StatusFailedDependency:
		f.class, f.Status = "api_error", http.StatusInternalServerError
	case f.Kind == server.KindWrongMethod, f.Kind == server.KindMediaType:
		f.class = "invalid_request_error"
	default:
		f.class, f.Status = "invalid_request_error", http.StatusBadRequest
	}
	return f
}

// append writes {"type":"error","error":{"type":…,"message":…},"request_id":…}.
func (f *failure) append(b []byte, request string) []byte {
	b = wire.AppendString(append(b, `{"type":"error","error":{"type":`...), f.class)
	b = wire.AppendString(append(b, `,"message":`...), f.Text)
	b = wire.AppendString(append(b, `},"request_id":`...), request)
	return append(b, '}')
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	identify(w)
	f := explain(err)
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, f.append(nil, w.Header().Get("Request-Id")))
}
