package texts

import (
	"fmt"
	"net/http"

	"tgi/server"
	"tgi/server/api/openaierror"
	"tgi/server/generate"
	"tgi/server/wire"
)

func invalid(field, format string, args ...any) error {
	return &generate.Invalid{Msg: fmt.Sprintf(format, args...), Field: field}
}

// refuseOpenAI replies with OpenAI's object.
func refuseOpenAI(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	f := openaierror.Explain(err, openaierror.Names{"inputs": "input"})
	if f.Kind == server.KindWrongTask {
		f.Param = "model"
	}
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, f.AppendObject(nil, false))
}

// teiKinds maps kinds of errors to TEI's statuses and types.
var teiKinds = map[server.Kind]struct {
	status int
	name   string
}{
	server.KindInvalid:       {http.StatusRequestEntityTooLarge, "Validation"},
	server.KindTooLong:       {http.StatusRequestEntityTooLarge, "Validation"},
	server.KindTooLarge:      {http.StatusRequestEntityTooLarge, "Validation"},
	server.KindShape:         {http.StatusUnprocessableEntity, "Validation"},
	server.KindSyntax:        {http.StatusBadRequest, "Validation"},
	server.KindOverloaded:    {http.StatusTooManyRequests, "Overloaded"},
	server.KindBackend:       {http.StatusFailedDependency, "Backend"},
	server.KindWrongTask:     {http.StatusFailedDependency, "Backend"},
	server.KindUnhealthy:     {http.StatusServiceUnavailable, "Unhealthy"},
	server.KindDraining:      {http.StatusServiceUnavailable, "Unhealthy"},
	server.KindServerLoading: {http.StatusServiceUnavailable, "Unhealthy"},
	server.KindModelLoading:  {http.StatusServiceUnavailable, "Unhealthy"},
	server.KindModelStopped:  {http.StatusServiceUnavailable, "Unhealthy"},
}

// refuseTEI replies as TEI does. Errors that it does not have keep the types of TGI's routes.
func refuseTEI(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	f := server.Explain(err)
	if own, ok := teiKinds[f.Kind]; ok {
		f.Status, f.Type = own.status, own.name
	}
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, f.Append(nil))
}

// refuseRerank replies with a text under the names that Cohere's and Jina's clients read.
func refuseRerank(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	f := server.Explain(err)
	f.SetHeader(w.Header())
	b := wire.AppendString([]byte(`{"message":`), f.Text)
	b = wire.AppendString(append(b, `,"detail":`...), f.Text)
	b = wire.AppendString(append(b, `,"error_type":`...), f.Type)
	server.WriteStatus(w, f.Status, append(b, '}'))
}
